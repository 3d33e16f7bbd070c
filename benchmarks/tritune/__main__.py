"""`make bench-tritune`: plays what was not played yet, in parallel, then writes the table of all there is.

`QUICK=1` is short. `SEEDS=n` sets the seeds, `TRACES` names a folder with recorded traces (see `docs/tritune.md`);
seeded stand-ins are played for what is not there. Workloads can be named; `table` plays nothing, `pictures` only draws.
Numbers are kept in `.cache/tritune`, so that an interrupted run goes on where it was. A run that fails is told, and the
others go on.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Final

from benchmarks.figures import RESULTS, ROOT, Figures, quick
from benchmarks.tritune import ablation, aside, checks, constant, faulty, flapping, recorded, report, stepping, weeks
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
    "W7 aside": ("aside", aside.cells, aside.play),
    "W8": ("faulty", faulty.cells, faulty.play),
    "ablation": ("ablation", ablation.cells, ablation.play),
    "adversary": ("flapping", flapping.cells, flapping.play),
}
"""By name: the module, what there is to play, and how."""
BESIDE: Final = ("table", "pictures")
"""What else can be named: the table of what was played, which is always written, and the drawings."""


def one(scope: Scope, name: str, cell: Cell) -> tuple[Cell, Numbers, float]:
    """Plays one cell, unless it was."""
    module, _, play = PLAYS[name]
    began = time.process_time()
    numbers = played(scope, cell, module, lambda: play(scope, cell))
    return cell, numbers, time.process_time() - began


def main(names: Sequence[str]) -> None:
    """Plays the workloads named, all when none is."""
    traces = os.environ.get("TRACES")
    scope = Scope(
        quick=quick(),
        seeds=int(os.environ.get("SEEDS", "1" if quick() else "20")),
        traces=Path(traces) if traces else None,
        store=ROOT / ".cache" / "tritune",
    )
    planned = [(name, cell) for name, (_, cells, _) in PLAYS.items() for cell in cells(scope)]
    planned.sort(key=lambda item: item[1].seed)
    known = dict.fromkeys((*PLAYS, *(cell.workload for _, cell in planned), *BESIDE))
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"no workload {', '.join(unknown)}: there are {', '.join(known)}")
    results = {cell: numbers for name, cell in planned if (numbers := kept(scope, cell, PLAYS[name][0])) is not None}
    mine = [one for one in planned if not names or {one[0], one[1].workload} & {*names}]
    left = [item for item in mine if item[1] not in results]
    print(f"{len(planned)} runs, {len(results)} kept, {len(left)} to play", flush=True)
    failed = _play(scope, left, results)
    figures = Figures("tritune-figures")
    for figure in report.write(
        results, [cell for _, cell in planned], RESULTS, into_docs=not scope.quick and not set(names) - {*BESIDE}
    ):
        figures.add(figure.name, figure.value, figure.unit, figure.goal, figure.better)
    if not names or "pictures" in names:
        pictures(scope, RESULTS)
    print(f"results: {RESULTS / 'tritune.md'}")
    if failed:
        sys.exit(f"{failed} runs failed")


def _play(scope: Scope, left: Sequence[tuple[str, Cell]], results: dict[Cell, Numbers]) -> int:
    """Plays what is left, into `results`. Returns how many failed, each with its traceback on standard error."""
    failed = 0
    began, workers = time.monotonic(), len(os.sched_getaffinity(0))
    if not left:
        return failed
    with ProcessPoolExecutor(min(workers, int(os.environ.get("WORKERS", workers)))) as pool:
        waiting = {pool.submit(one, scope, name, cell): cell for name, cell in left}
        for place, future in enumerate(as_completed(waiting), start=1):
            error = future.exception()
            if error is not None:
                failed += 1
                print(f"{waiting[future]} failed", file=sys.stderr)
                traceback.print_exception(error)
                continue
            cell, numbers, seconds = future.result()
            results[cell] = numbers
            print(
                f"{place}/{len(left)} {time.monotonic() - began:.0f} s: {cell.workload} {cell.variant} {cell.policy} "
                f"seed {cell.seed}, {seconds:.1f} s",
                flush=True,
            )
    return failed


if __name__ == "__main__":
    main(sys.argv[1:])
