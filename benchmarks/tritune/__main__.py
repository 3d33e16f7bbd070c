"""`make bench-tritune`: all parts, or those named; `QUICK=1` for a short form.

`TRACES` names a folder with recorded traces (see `docs/simulator.md`); seeded stand-ins are played for what is
not there.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks.figures import RESULTS, Figures, quick
from benchmarks.tritune import guards, parts, weeks
from benchmarks.tritune.plot import draw_run
from benchmarks.tritune.questions import NORMAL
from benchmarks.tritune.steps import stepped

PARTS: Final[dict[str, Callable[[parts.Scope, Figures], None]]] = {
    "simulator": parts.simulator,
    "constant": parts.constant,
    "steps": parts.stepping,
    "recorded": parts.recorded,
    "days": weeks.weeks,
    "faults": parts.faults,
    "guards": guards.guards,
    "adversary": parts.adversary,
}


def main(names: list[str]) -> None:
    """Plays the parts named, all when none is."""
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        sys.exit(f"no part {', '.join(unknown)}: there are {', '.join(PARTS)}")
    traces = os.environ.get("TRACES")
    scope = parts.Scope(
        quick=quick(),
        seeds=int(os.environ.get("SEEDS", "1" if quick() else "20")),
        workers=len(os.sched_getaffinity(0)),
        traces=Path(traces) if traces else None,
    )
    figures = Figures("tritune" if not names else f"tritune-{'-'.join(names)}")
    for name in names or PARTS:
        began = time.monotonic()
        PARTS[name](scope, figures)
        print(f"» {name}: {time.monotonic() - began:.0f} s", flush=True)
    if "steps" in (names or PARTS):
        RESULTS.mkdir(parents=True, exist_ok=True)
        draw_run("W2: half the load, twice the load, half again", stepped(0).run, NORMAL, RESULTS / "tritune-steps.svg")
    print(f"results: {figures.write()}")


if __name__ == "__main__":
    main(sys.argv[1:])
