"""Exhaustive search: every setting of delay, instances and replicas, each simulated on the load it is asked about."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import numpy as np

from llmservice.api.knobs import Knobs
from llmservice.tuning.simulator.kinds import BatchKind
from llmservice.tuning.simulator.load import Load
from llmservice.tuning.simulator.plant import Plant
from llmservice.tuning.simulator.question import Question, limits_of

DELAYS: Final = (0.0, 0.5, 1.0, 1.5, 2.0)
"""In units of a batch of one; a quarter of the objective instead of those above it."""
WARM_SECONDS: Final = 10.0


@dataclass(frozen=True)
class Setting:
    """One setting and what it does: p99 in seconds, busy accelerators on average."""

    knobs: Knobs
    p99: float
    busy: float

    @property
    def words(self) -> str:
        """Such as `2 x (n=1, D=20 ms)`."""
        delay = 1000 * self.knobs.max_queue_delay.total_seconds()
        return f"{self.knobs.replicas} x (n={self.knobs.engine_instances}, D={delay:g} ms)"


def measure(question: Question, load: Load, knobs: Knobs) -> Setting:
    """One setting in steady state; p99 is infinite where requests pile up."""
    plant = Plant(question.kind, knobs, load, seed=question.seed)
    plant.advance(WARM_SECONDS)
    busy = plant.tally.busy_seconds
    rows = np.concatenate(plant.advance(load.seconds) or [np.zeros((0, 6))])
    left = sum(len(one.waiting) for one in plant.replicas)
    late = left > 0.01 * len(load.times)
    p99 = float(np.quantile(rows[:, 3] - rows[:, 0], 0.99)) if len(rows) and not late else float("inf")
    return Setting(knobs, p99, (plant.tally.busy_seconds - busy) / (load.seconds - WARM_SECONDS))


def every(question: Question, load: Load) -> list[Setting]:
    """All settings, fewest replicas first; from a number of replicas on that meets the objective, no more replicas."""
    kind, objective = question.kind, question.objectives[0]
    assert isinstance(kind, BatchKind)
    longest = objective.seconds / 4
    delays = sorted({min(longest, share * kind.batch_seconds(1)) for share in DELAYS})
    found: list[Setting] = []
    for replicas in range(1, question.max_replicas + 1):
        mine = [
            measure(question, load, knobs_of(question, delay, instances, replicas))
            for instances in range(1, kind.memory_instances + 1)
            for delay in delays
        ]
        found += mine
        if any(one.p99 <= objective.seconds for one in mine):
            break
    return found


def knobs_of(question: Question, delay: float, instances: int, replicas: int) -> Knobs:
    """As knobs."""
    return Knobs(
        max_queue_delay=timedelta(seconds=delay),
        engine_instances=instances,
        slots=limits_of(question.kind).max_slots,
        replicas=replicas,
    )


def best(settings: list[Setting], objective: float) -> Setting | None:
    """The cheapest within the objective: fewest replicas, then least busy; None where none is."""
    within = [one for one in settings if one.p99 <= objective]
    return min(within, key=lambda one: (one.knobs.replicas, one.busy), default=None)
