"""`make bench-tritune`: plays what was not played yet, in parallel, then writes the table of all there is.

`QUICK=1` is short. `SEEDS=n` sets the seeds, `TRACES` names a folder with recorded traces (see `docs/tritune.md`);
seeded stand-ins are played for what is not there. Workloads can be named; `table` plays nothing. Numbers are kept in
`.cache/tritune`, so that an interrupted run goes on where it was.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Final

from benchmarks.figures import RESULTS, ROOT, Figures, quick
from benchmarks.tritune import ablation, checks, constant, faulty, flapping, recorded, report, stepping, weeks
from benchmarks.tritune.cell import Cell, Numbers, Scope, kept, played
from benchmarks.tritune.pictures import pictures

Cells = Callable[[Scope], Iterator[Cell]]
Play = Callable[[Scope, Cell], Numbers]

PLAYS: Final[dict[str, tuple[str, Cells, Play]]] = {
    "simulator": ("checks", checks.cells, checks.play),
    "W1": ("constant", constant.cells, constant.play),
    "W2": ("stepping", stepping.cells, stepping.play),
    "recorded": ("recorded", recorded.cells, recorded.play),
    "W7": ("weeks", weeks.cells, weeks.play),
    "W8": ("faulty", faulty.cells, faulty.play),
    "ablation": ("ablation", ablation.cells, ablation.play),
    "adversary": ("flapping", flapping.cells, flapping.play),
}
"""By name: the module, what there is to play, and how."""


def one(scope: Scope, name: str, cell: Cell) -> tuple[Cell, Numbers, float]:
    """Plays one cell, unless it was."""
    module, _, play = PLAYS[name]
    began = time.process_time()
    numbers = played(scope, cell, module, lambda: play(scope, cell))
    return cell, numbers, time.process_time() - began


def main(names: Sequence[str]) -> None:
    """Plays the workloads named, all when none is."""
    unknown = [name for name in names if name not in (*PLAYS, "table")]
    if unknown:
        sys.exit(f"no workload {', '.join(unknown)}: there are {', '.join(PLAYS)}, and table")
    traces = os.environ.get("TRACES")
    scope = Scope(
        quick=quick(),
        seeds=int(os.environ.get("SEEDS", "1" if quick() else "20")),
        traces=Path(traces) if traces else None,
        store=ROOT / ".cache" / "tritune",
    )
    planned = [(name, cell) for name, (_, cells, _) in PLAYS.items() for cell in cells(scope)]
    planned.sort(key=lambda item: item[1].seed)
    results = {cell: numbers for name, cell in planned if (numbers := kept(scope, cell, PLAYS[name][0])) is not None}
    mine = [] if "table" in names else [item for item in planned if not names or item[0] in names]
    left = [item for item in mine if item[1] not in results]
    print(f"{len(planned)} runs, {len(results)} kept, {len(left)} to play", flush=True)
    _play(scope, left, results)
    figures = Figures("tritune-figures")
    for figure in report.write(
        results, [cell for _, cell in planned], RESULTS, into_docs=not scope.quick and not set(names) - {"table"}
    ):
        figures.add(figure.name, figure.value, figure.unit, figure.goal, figure.better)
    if "table" not in names:
        pictures(scope, RESULTS)
    print(f"results: {RESULTS / 'tritune.md'}")


def _play(scope: Scope, left: Sequence[tuple[str, Cell]], results: dict[Cell, Numbers]) -> None:
    began, workers = time.monotonic(), len(os.sched_getaffinity(0))
    if not left:
        return
    with ProcessPoolExecutor(min(workers, int(os.environ.get("WORKERS", workers)))) as pool:
        waiting = [pool.submit(one, scope, name, cell) for name, cell in left]
        for place, future in enumerate(as_completed(waiting), start=1):
            cell, numbers, seconds = future.result()
            results[cell] = numbers
            print(
                f"{place}/{len(left)} {time.monotonic() - began:.0f} s: {cell.workload} {cell.variant} {cell.policy} "
                f"seed {cell.seed}, {seconds:.1f} s",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
