"""Weeks that nobody tuned for: as W7, with the recorded series backwards and seeded stand-ins looked at nowhere else.

A series played backwards has the same noise, peaks and gaps, but other slopes: it falls where it rose.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from benchmarks.tritune import weeks
from benchmarks.tritune.cell import Cell, Numbers, Scope, played
from benchmarks.tritune.contest import Contest
from benchmarks.tritune.policies import compete
from benchmarks.tritune.questions import rate_series
from llmservice.tuning.simulator.load import Inside, Load, RateSeries
from llmservice.tuning.simulator.standins import days
from llmservice.tuning.simulator.workloads import THINNED

WORKLOAD: Final = "W7 aside"
STANDINS: Final = (301, 302)
"""Seeds that no other benchmark and no test plays. Whoever chooses a constant by what they show takes new ones then:
101 and 102 were here first, and what of the margin the highest forecast takes was chosen with a look at them."""
PLAYERS: Final = ("tuner", "O1 clairvoyant", "O2 lead-time oracle")


def cells(scope: Scope) -> Iterator[Cell]:
    """The tuner beside the oracles on every series at both lead times, once."""
    for name in series_of(scope):
        for lead in weeks.GOALS:
            yield from (Cell(0, WORKLOAD, f"{name} {lead}", policy) for policy in PLAYERS)


def play(scope: Scope, cell: Cell) -> Numbers:
    """One contestant."""
    name, _, lead = cell.variant.rpartition(" ")
    series = series_of(scope)[name]
    half = round(series.seconds / 120) * 60.0
    before = min(half, weeks.LEARNING if cell.tuner else weeks.BEFORE)

    def requests(start: float, end: float, seed: int) -> Load:
        return weeks.part_of(series, start, end, seed, Inside.LINEAR)

    contest = Contest(
        weeks.asked(requests(half - before, series.seconds, cell.seed), float(lead), cell.seed),
        weeks.asked(
            requests(half - min(half, weeks.TRAINING), half, weeks.TRAINING_SEED), float(lead), weeks.TRAINING_SEED
        ),
        start=before,
        goal=weeks.GOALS[int(lead)],
        learn=lambda known, find: played(scope, Cell(0, WORKLOAD, cell.variant, known), "aside", find),
    )
    return compete(cell.policy, contest)


def series_of(scope: Scope) -> dict[str, RateSeries]:
    """By name, thinned; two days of each in a quick run."""
    found = {
        f"{name} backwards": RateSeries(one.rates[::-1], one.window) for name, one in rate_series(scope.traces).items()
    }
    found |= {f"stand-in {seed}": days(seed) for seed in STANDINS}
    return {name: (one.part(0, 288) if scope.quick else one).scaled_to(THINNED) for name, one in found.items()}
