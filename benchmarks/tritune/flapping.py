"""A search for loads that make the tuner flap: rates whose slope is bounded, bent towards more reversals.

Rates are piecewise linear in their logarithm; at most a factor of `STEEPEST` a minute. A hill climb over the knots
keeps what makes more reversals, then more changes: the best of many tries is what an unlucky service would see.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.tritune.cell import Cell, Numbers, Scope
from benchmarks.tritune.played import reversals
from benchmarks.tritune.questions import CHAT, tokens
from llmservice.tuning.simulator.load import RateSeries, load_of, renewal
from llmservice.tuning.simulator.run import Tuner

Floats = NDArray[np.float64]

KNOTS: Final = 24
SPACING: Final = 600.0
STEEPEST: Final = 1.12
LOWEST, HIGHEST = 4.0, 40.0


@dataclass(frozen=True)
class Attack:
    """A load and what it did."""

    rates: Floats
    reversals: int
    changes: int


TRIES: Final = 40


def cells(scope: Scope) -> Iterator[Cell]:
    """One search a seed."""
    yield from (Cell(seed, "adversary", "", "tuner") for seed in range(scope.few(6)))


def play(scope: Scope, cell: Cell) -> Numbers:
    """One search."""
    worst = search(6 if scope.quick else TRIES, cell.seed)
    return {"reversals": worst.reversals, "changes": worst.changes, "rates": [round(one, 2) for one in worst.rates]}


def attack(rates: Floats, seed: int, lead: float) -> Attack:
    """Plays kind B under rates given by their knots."""
    moments = np.arange(0.0, KNOTS * SPACING, 30.0)
    fine = np.exp(np.interp(moments, np.arange(KNOTS) * SPACING, np.log(rates)))
    random = np.random.default_rng([seed, 41])
    load = load_of(renewal(RateSeries(fine, 30.0), random), KNOTS * SPACING, random)
    question = tokens(load, CHAT, lead=lead, seed=seed)
    run = question.play(Tuner(question.settings), question.first_knobs(4))
    path = [point for point in run.tally.replica_path if point[0] > 0]
    return Attack(rates, reversals(path, 4 * lead), run.tally.replica_changes)


def search(tries: int, seed: int, lead: float = 180.0) -> Attack:
    """The worst load found in `tries` plays."""
    random = np.random.default_rng([seed, 42])
    worst: Attack | None = None
    for number in range(tries):
        fresh = worst is None or number % 4 == 0
        knots = _random(random) if fresh or worst is None else _bent(worst.rates, random)
        found = attack(knots, seed, lead)
        if worst is None or (found.reversals, found.changes) > (worst.reversals, worst.changes):
            worst = found
    assert worst is not None
    return worst


def _random(random: np.random.Generator) -> Floats:
    """A walk, or a swing of some period, as steep as is allowed."""
    if random.random() < 0.5:
        period = random.uniform(2, 12)
        swing = random.uniform(0.2, 1.0)
        logs = np.log(12.0) + swing * np.sin(2 * np.pi * np.arange(KNOTS) / period + random.uniform(0, 6))
    else:
        logs = np.log(12.0) + np.cumsum(random.standard_normal(KNOTS) * 0.4)
    return _bounded(np.exp(logs))


def _bent(rates: Floats, random: np.random.Generator) -> Floats:
    chosen = random.random(len(rates)) < 0.2
    return _bounded(rates * np.exp(chosen * random.standard_normal(len(rates)) * 0.3))


def _bounded(rates: Floats) -> Floats:
    """No steeper than allowed, within the lowest and the highest."""
    logs = np.log(np.clip(rates, LOWEST, HIGHEST))
    most = np.log(STEEPEST) * SPACING / 60.0
    for index in range(1, len(logs)):
        logs[index] = np.clip(logs[index], logs[index - 1] - most, logs[index - 1] + most)
    bounded: Floats = np.exp(logs)
    return bounded
