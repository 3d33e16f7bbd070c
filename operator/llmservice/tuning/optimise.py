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
"""Of accelerators, and of the time they compute, below which another setting is not worth its change."""
LEAST_TAIL_GAIN: Final = 0.10
"""Of the binding objective's quantile, likewise, where it is near its objective."""
NEAR: Final = 0.8
"""Of an objective, from which on a shorter tail is worth a change."""


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
    """The option to have: fewest replicas, then least busy, then the shortest tail; `current` unless one gains enough.

    Where nothing holds the objectives with as many replicas as there may be, the largest capacity.
    """
    here = next(one for one in found if one.candidate == current)
    holding = [one for one in found if not one.capped]
    if not holding:
        best = max(found, key=lambda one: one.capacity)
        return best if best.capacity > here.capacity * (1 + LEAST_GAIN) else here
    fewest = min(one.replicas for one in holding)
    cheapest = [one for one in holding if one.replicas == fewest]
    idlest = min(one.busy for one in cheapest)
    best = min(
        (one for one in cheapest if one.busy <= idlest * (1 + LEAST_GAIN / 2)),
        key=lambda one: (round(one.tail, 2), _distance(one.candidate, current)),
    )
    return best if worth_it(here, best) else here


def worth_it(here: Option, other: Option) -> bool:
    """Whether changing from one setting of the replicas to another gains enough to be done."""
    if here.capped and not other.capped:
        return True
    if other.replicas != here.replicas:
        return other.replicas <= here.replicas * (1 - LEAST_GAIN)
    if other.busy <= here.busy * (1 - LEAST_GAIN):
        return True
    return other.busy <= here.busy and here.tail > NEAR and other.tail <= here.tail * (1 - LEAST_TAIL_GAIN)


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
