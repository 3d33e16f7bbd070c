"""W7: fourteen days of a service's rates on kind B, thinned to 20 requests/s, judged on the second half.

Whatever a baseline has to be told is chosen on the first half. The tuner, which learns while it works, starts a day
before it is judged, others a quarter of an hour before.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.tritune.cell import Cell, Numbers, Scope, played
from benchmarks.tritune.contest import Contest
from benchmarks.tritune.policies import RETUNED, STATIC, compete, policies
from benchmarks.tritune.questions import CHAT, rate_series, tokens
from llmservice.tuning.simulator.load import Inside, Load, RateSeries, load_of, renewal
from llmservice.tuning.simulator.question import Question
from llmservice.tuning.simulator.workloads import THINNED

GOALS: Final = {180: 0.003, 600: 0.01}
"""Share of violated minutes that is allowed, by lead time in seconds."""
SEEDS: Final = 3
CV: Final = 1.2
FINE: Final = 60.0
DAY: Final = 86400.0
LEARNING: Final = DAY
TRAINING: Final = 2 * DAY
TRAINING_SEED: Final = 1000
BEFORE: Final = 900.0
ALWAYS: Final = ("tuner", "O1 clairvoyant", "O2 lead-time oracle")
BESIDE: Final = (*STATIC, *RETUNED)
"""Whom the tuner is compared with at equal attainment, with every seed; all others with the first one."""


def cells(scope: Scope) -> Iterator[Cell]:
    """Both series at both lead times; the tuner and the oracles on steps instead of lines, too."""
    for seed in range(scope.few(SEEDS)):
        for name in rate_series(scope.traces):
            for lead in GOALS:
                everybody = policies(continuous=True) if lead == 180 and seed == 0 else (*ALWAYS, *BESIDE)
                mine = everybody if lead == 180 else ALWAYS
                yield from (Cell(seed, "W7", f"{name} {lead}", policy) for policy in mine)
            yield from (Cell(seed, "W7", f"{name} 180 stepwise", policy) for policy in (ALWAYS if seed == 0 else ()))


def play(scope: Scope, cell: Cell) -> Numbers:
    """One contestant."""
    return compete(cell.policy, contest_of(scope, cell))


def contest_of(scope: Scope, cell: Cell) -> Contest:
    """What one cell is played on."""
    name, lead, *stepwise = cell.variant.split()
    series = _series(scope.traces, name, short=scope.quick)
    inside = Inside.STEPWISE if stepwise else Inside.LINEAR
    half = round(series.seconds / 120) * 60.0
    before = min(half, LEARNING if cell.tuner else BEFORE)

    def requests(start: float, end: float, seed: int) -> Load:
        return _requests(scope.traces, name, scope.quick, start, end, seed, inside)

    return Contest(
        asked(requests(half - before, series.seconds, cell.seed), float(lead), cell.seed),
        asked(requests(half - min(half, TRAINING), half, TRAINING_SEED), float(lead), TRAINING_SEED),
        start=before,
        goal=GOALS[int(lead)],
        learn=lambda known, find: played(scope, Cell(0, "W7", cell.variant, known), "weeks", find),
    )


def names(scope: Scope) -> list[str]:
    """The series there are."""
    return list(rate_series(scope.traces))


def asked(load: Load, lead: float, seed: int) -> Question:
    """A question of kind B."""
    return tokens(load, CHAT, lead=lead, seed=seed)


def _series(traces: Path | None, name: str, *, short: bool) -> RateSeries:
    whole = rate_series(traces)[name]
    return (whole.part(0, 288) if short else whole).scaled_to(THINNED)


@lru_cache(maxsize=3)
def _requests(traces: Path | None, name: str, short: bool, start: float, end: float, seed: int, inside: Inside) -> Load:
    """Twelve million requests: a seed's and the training's are made once for all who compete in a row."""
    return part_of(_series(traces, name, short=short), start, end, seed, inside)


def part_of(series: RateSeries, start: float, end: float, seed: int, inside: Inside) -> Load:
    """Requests from `start` to `end`: gaps as gamma variates of some burstiness, usual lengths."""
    random = np.random.default_rng([seed, 8])
    fine = series.fine(inside, FINE).part(round(start / FINE), round(end / FINE))
    return load_of(renewal(fine, random, CV), fine.seconds, random)
