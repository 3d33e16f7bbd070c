"""What hindsight could do: the replicas a minute needs, and two schedules that know the future.

O1 has at every minute exactly what that minute needs. O2 also knows the future, but only as far as a cold start
reaches, and pays each cold start: nobody who asks for replicas a lead time ahead can be cheaper at the same attainment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llmservice.api.knobs import Knobs
from llmservice.tuning.measured import Signals
from llmservice.tuning.settings import Objective
from llmservice.tuning.simulator.kinds import Kind
from llmservice.tuning.simulator.load import Load, RateSeries, Tokens, load_of, renewal
from llmservice.tuning.simulator.outcome import MINUTE, Judge
from llmservice.tuning.simulator.plant import Plant

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TRIAL_SECONDS = 900.0


@dataclass(frozen=True)
class Capacity:
    """Most requests/s of 1, 2, … replicas within the objectives; `rates[i]` is of `i + 1`."""

    rates: tuple[float, ...]

    def needed(self, rate: float) -> int:
        """The fewest replicas for `rate`; the most there are where none suffices."""
        return min(int(np.searchsorted(self.rates, rate)) + 1, len(self.rates))


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
    most: int,
    start: float,
    tokens: Tokens | None = None,
    cv: float = 1.0,
    share: float = 0.99,
) -> Capacity:
    """By bisection on simulated replicas in steady state, to 2 %. `start` is a rate that one replica can take."""
    rates: list[float] = []
    for count in range(1, most + 1):
        low = rates[-1] + 0.5 * rates[0] if rates else 0.2 * start
        high = (rates[-1] + 1.6 * rates[0]) if rates else 4 * start
        while high - low > 0.02 * low:
            rate = 0.5 * (low + high)
            random = np.random.default_rng([count, 11])
            times = renewal(RateSeries(np.full(15, rate), TRIAL_SECONDS / 15), random, cv)
            load = load_of(times, TRIAL_SECONDS, random, tokens)
            if met(kind, load, objectives, knobs.model_copy(update={"replicas": count})) >= share:
                low = rate
            else:
                high = rate
        rates.append(low)
    return Capacity(tuple(rates))


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
        return signals.knobs.model_copy(update={"replicas": count})
