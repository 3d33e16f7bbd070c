"""The picture of docs/tuning.md: a load that quadruples and falls again, and what the tuner does.

`python -m benchmarks.tritune.picture` writes docs/images/tuning.svg; the same seed gives the same picture.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from benchmarks.tritune.plot import Line, draw
from benchmarks.tritune.questions import TENTH, TENTH_NORMAL, dynamic
from llmservice.tuning.simulator.question import tuned
from llmservice.tuning.simulator.workloads import steps

TARGET: Final = Path(__file__).parents[2] / "docs" / "images" / "tuning.svg"
LENGTH: Final = 2400.0
CUT: Final = 3.0
"""Objectives above which p99 is not drawn any higher."""


def picture(path: Path, *, length: float = LENGTH, seed: int = 0) -> None:
    """Plays it and draws load, replicas, delay and p99 to `path`, as SVG."""
    (objective,) = TENTH_NORMAL
    question = dynamic(steps(0.9 * TENTH.capacity, seed, length), TENTH_NORMAL, kind=TENTH, most=6, seed=seed)
    run = tuned(question, record=True)
    hours = [window.end / 3600 for window in run.windows]
    delays = [1000 * window.knobs.max_queue_delay.total_seconds() for window in run.windows]
    tails = [1000 * min(window.p99[0], CUT * objective.seconds) for window in run.windows]
    panels: list[tuple[str, list[Line], float | None]] = [
        ("requests/s", [("arrivals", hours, [window.arrivals for window in run.windows])], None),
        (
            "replicas",
            [
                ("asked for", hours, [float(window.knobs.replicas) for window in run.windows]),
                ("serving", hours, [float(window.ready) for window in run.windows]),
            ],
            None,
        ),
        ("delay of the gate, ms", [("maxQueueDelay", hours, delays)], None),
        (f"{objective.words} (dashed), ms", [("p99 of 30 s", hours, tails)], 1000 * objective.seconds),
    ]
    draw("Half the load, twice the load, half again; a replica takes three minutes to start", panels, path)


if __name__ == "__main__":
    picture(TARGET)
