"""The best setting: every candidate with the replicas it needs, all knobs together, since one at a time gets stuck.

At 700 requests/s (a = 10 ms, c = 1 ms, largest batch 64) two instances with 20 ms of delay give a p99 of 76 ms, and
either alone gives 90 ms or more: no climb from one knob to the next finds that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from llmservice.tuning.performance import Candidate, Performance, capacity
from llmservice.tuning.settings import Bounds, Objective

LEAST_GAIN: Final = 0.05
"""Of accelerators, below which another setting of the replicas is not worth its change."""
LEAST_TAIL_GAIN: Final = 0.10
"""Of the binding objective's quantile, likewise."""
LEAST_BUSY_GAIN: Final = 0.15
"""Of busy time, likewise, as long as the tail stays below `RELAXED` of its objective."""
RELAXED: Final = 0.8


@dataclass(frozen=True)
class Option:
    """A candidate with the fewest replicas that hold the objectives; `capacity` is requests/s of one replica."""

    candidate: Candidate
    replicas: int
    capacity: float
    binding: Objective | None
    busy: float
    tail: float
    """The binding objective's quantile at the demand, over the objective; 0 without objectives."""
    capped: bool = False
    """Whether more replicas were needed than may be."""


def options(
    performance: Performance, objectives: tuple[Objective, ...], bounds: Bounds, demand: float, margin: float
) -> tuple[Option, ...]:
    """Every candidate at `demand` requests/s over all replicas."""
    found = []
    for candidate in performance.candidates():
        rate, binding = capacity(performance, candidate, objectives, margin)
        needed = replicas_for(demand, rate, bounds)
        each = demand / max(1, needed)
        tail = 0.0
        if binding is not None:
            tail = performance.quantile(candidate, binding.metric, binding.quantile, each) / binding.seconds
        found.append(
            Option(
                candidate=candidate,
                replicas=needed,
                capacity=rate,
                binding=binding,
                busy=performance.busy(candidate, each) * max(1, needed),
                tail=tail,
                capped=demand > rate * needed * (1 + 1e-9),
            )
        )
    return tuple(found)


def replicas_for(demand: float, rate: float, bounds: Bounds) -> int:
    """Fewest replicas of `rate` requests/s each that take `demand`, within bounds."""
    needed = math.ceil(demand / rate - 1e-9) if rate > 0 else bounds.max_replicas
    return max(bounds.min_replicas, min(bounds.max_replicas, needed))


def choose(found: tuple[Option, ...], current: Candidate) -> Option:
    """The option to have: fewest replicas, then the shortest tail; `current` unless another is clearly better.

    Where nothing holds the objectives with as many replicas as there may be, the largest capacity.
    """
    holding = [one for one in found if not one.capped]
    here = next((one for one in found if one.candidate == current), None)
    if not holding:
        best = max(found, key=lambda one: one.capacity)
        if here is not None and here.capacity * (1 + LEAST_GAIN) >= best.capacity:
            return here
        return best
    fewest = min(one.replicas for one in holding)
    if here is None or here.capped or here.replicas * (1 - LEAST_GAIN) >= fewest + 1e-9:
        return min(
            (one for one in holding if one.replicas == fewest),
            key=lambda one: (round(one.tail, 2), one.busy, _distance(one.candidate, current)),
        )
    return here


def worth_it(here: Option, other: Option) -> bool:
    """Whether changing from one setting of the replicas to another gains enough to be done."""
    if here.capped and not other.capped:
        return True
    if other.replicas <= here.replicas * (1 - LEAST_GAIN):
        return True
    if other.replicas > here.replicas:
        return False
    return other.tail <= here.tail * (1 - LEAST_TAIL_GAIN) and here.tail > RELAXED


def _distance(candidate: Candidate, current: Candidate) -> float:
    """How much would change: each kind of knob counts once, dearer ones more."""
    return (
        (candidate.instances != current.instances)
        + 2.0 * (candidate.delay != current.delay)
        + 0.5 * (candidate.slots != current.slots)
    )


def without_infeasible(
    performance: Performance, objectives: tuple[Objective, ...]
) -> tuple[tuple[Objective, ...], tuple[tuple[Objective, float], ...]]:
    """(objectives that some load can meet, those not even one request alone meets, with what it takes)."""
    feasible, infeasible = [], []
    for objective in objectives:
        alone = performance.alone(objective.metric)
        if alone > objective.seconds:
            infeasible.append((objective, alone))
        else:
            feasible.append(objective)
    return tuple(feasible), tuple(infeasible)
