"""What hindsight could do: the replicas a minute needs, and two schedules that know the future.

O1 has at every minute exactly what that minute needs. O2 also knows the future, but only as far as a cold start
reaches, and pays each cold start: nobody who asks for replicas a lead time ahead can be cheaper at the same attainment.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llmservice.api.knobs import Knobs
from llmservice.tuning.measured import Signals
from llmservice.tuning.settings import Objective
from llmservice.tuning.simulator.kinds import Kind
from llmservice.tuning.simulator.load import Load, Tokens, load_of, poisson
from llmservice.tuning.simulator.outcome import MINUTE, Judge
from llmservice.tuning.simulator.plant import Plant

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TRIAL_SECONDS = 600.0
TRIAL_REPLICAS = 4
LEAST_RATE = 0.02
"""Requests/s of one replica from which on a capacity is looked for."""


@dataclass(frozen=True)
class Capacity:
    """Most requests/s of one replica within the objectives. Requests are dealt at random, so n take n times as many."""

    each: float
    most: int

    def needed(self, rate: float) -> int:
        """The fewest replicas for `rate`; the most there are where none suffices."""
        return max(1, min(self.most, math.ceil(rate / self.each - 1e-9)))


def met(kind: Kind, load: Load, objectives: Sequence[Objective], knobs: Knobs) -> float:
    """Share of requests within the objectives in the last two thirds of `load`, with fixed knobs."""
    plant = Plant(kind, knobs, load, seed=1)
    judge = Judge(objectives, load.seconds, plant.jit)
    while plant.clock < load.seconds:
        for rows in plant.advance(min(load.seconds, plant.clock + MINUTE)):
            judge.add(rows)
    for one in plant.replicas:
        judge.add_lost(one.waiting[one.waiting[:, 0] < plant.clock - 5.0, 0])
    return judge.attainment(load.seconds / 3)


def capacity(
    kind: Kind,
    objectives: Sequence[Objective],
    knobs: Knobs,
    tokens: Tokens | None = None,
    *,
    seconds: float = TRIAL_SECONDS,
    replicas: int = TRIAL_REPLICAS,
    share: float = 0.99,
) -> float:
    """Most requests/s of one replica in steady state, to 3 %: by doubling, then bisection, of `replicas` side by side.

    Raises ValueError where not even `LEAST_RATE` meets the objectives, and for a trial too short to be judged: its last
    two thirds must hold whole minutes.
    """
    if seconds < 3 * MINUTE:
        raise ValueError(f"{seconds:g} s are too short to judge: take {3 * MINUTE:g} s or more")
    several = knobs.model_copy(update={"replicas": replicas})

    def holds(rate: float) -> bool:
        random = np.random.default_rng(11)
        load = load_of(poisson(replicas * rate, seconds, random), seconds, random, tokens)
        return met(kind, load, objectives, several) >= share

    low = LEAST_RATE
    if not holds(low):
        raise ValueError(f"{low:g} requests/s already miss the objectives")
    while holds(2 * low):
        low *= 2
    high = 2 * low
    while high - low > 0.03 * low:
        rate = 0.5 * (low + high)
        low, high = (rate, high) if holds(rate) else (low, rate)
    return low


def needs(load: Load, table: Capacity, margin: float) -> Ints:
    """Replicas that each minute needs, from the requests that really come in it, `margin` times as many."""
    return np.array([table.needed(margin * rate) for rate in load.rates(MINUTE)], dtype=np.int64)


def clairvoyant_hours(needed: Ints) -> float:
    """O1: replica hours with exactly what each minute needs, changed at no cost."""
    return float(needed.sum()) / 60


@dataclass(frozen=True)
class LeadTimeOracle:
    """O2: asks at each minute for the most that any minute within the cold start and a little more needs."""

    needed: Ints
    lead: float
    spread: float = 0.2
    """How much longer than usual a cold start may take."""
    period: float = 60.0

    def look(self, signals: Signals, now: float) -> Knobs:
        """The replicas to ask for now."""
        first = int(now / MINUTE)
        last = int((now + self.lead * (1 + self.spread) + self.period) / MINUTE) + 1
        coming = self.needed[first:last]
        count = int(coming.max()) if len(coming) else signals.knobs.replicas
        return signals.knobs.model_copy(update={"replicas": max(1, count)})
