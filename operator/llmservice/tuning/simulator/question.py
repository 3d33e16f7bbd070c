"""What somebody asks of the simulator: what would these objectives cost, tuned, and with replicas that suffice."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from llmservice.api.batching import BatchingMode
from llmservice.api.knobs import SLOT_LOOKAHEAD, Knobs
from llmservice.api.operations import TuningMode
from llmservice.tuning.settings import Bounds, Costs, Limits, Objective, Settings
from llmservice.tuning.simulator.kinds import BatchKind, Kind
from llmservice.tuning.simulator.load import Load
from llmservice.tuning.simulator.plant import PlantTimes
from llmservice.tuning.simulator.run import Controller, Fixed, Run, Tuner, simulate

SHORT_DELAY: Final = timedelta(milliseconds=5)


@dataclass(frozen=True)
class Question:
    """A load on an engine with objectives, and how far the knobs may move."""

    kind: Kind
    load: Load
    objectives: tuple[Objective, ...]
    max_replicas: int = 16
    min_replicas: int = 1
    max_delay: float = 0.05
    times: PlantTimes = field(default_factory=PlantTimes)
    seed: int = 0

    @property
    def settings(self) -> Settings:
        """The tuner's frame."""
        batches = isinstance(self.kind, BatchKind)
        instances = self.kind.memory_instances if isinstance(self.kind, BatchKind) else 1
        return Settings(
            mode=TuningMode.AUTO,
            batching=BatchingMode.DYNAMIC if batches else BatchingMode.CONTINUOUS,
            objectives=self.objectives,
            bounds=Bounds(
                max_delay=self.max_delay,
                max_instances=instances,
                min_replicas=self.min_replicas,
                max_replicas=self.max_replicas,
            ),
            limits=limits_of(self.kind),
            costs=Costs(self.times.cold_start, self.times.instance_start),
            canary=False,
        )

    def first_knobs(self, replicas: int = 1) -> Knobs:
        """What a service starts with before anything was learnt."""
        delay = SHORT_DELAY if isinstance(self.kind, BatchKind) else timedelta(0)
        return Knobs(max_queue_delay=delay, slots=limits_of(self.kind).max_slots, replicas=replicas)

    def play(self, controller: Controller, knobs: Knobs, *, record: bool = False, jit: bool | None = None) -> Run:
        """One run of this question's load."""
        return simulate(
            self.kind,
            self.load,
            controller,
            self.objectives,
            knobs,
            times=self.times,
            seed=self.seed,
            record=record,
            jit=jit,
        )


def limits_of(kind: Kind) -> Limits:
    """What one replica of `kind` holds."""
    if isinstance(kind, BatchKind):
        return Limits(kind.max_batch, kind.memory_instances, slot_lookahead=SLOT_LOOKAHEAD)
    return Limits(kind.max_sequences, kv_tokens=kind.kv_tokens, slot_lookahead=SLOT_LOOKAHEAD)


def tuned(question: Question, *, start: int | None = None, record: bool = False, jit: bool | None = None) -> Run:
    """The tuner on the question, from `start` replicas (1 when omitted)."""
    knobs = question.first_knobs(start or 1)
    return question.play(Tuner(question.settings), knobs, record=record, jit=jit)


def smallest_fixed(question: Question, attainment: float = 0.99, *, jit: bool | None = None) -> tuple[int, Run]:
    """The fewest replicas that, never changed, give `attainment` of requests their objectives, and their run.

    Where none up to `max_replicas` does, the most.
    """
    low, high = 1, question.max_replicas
    runs: dict[int, Run] = {}
    while low < high:
        middle = (low + high) // 2
        runs[middle] = _fixed(question, middle, jit)
        if runs[middle].judge.attainment() >= attainment:
            high = middle
        else:
            low = middle + 1
    return low, runs.get(low) or _fixed(question, low, jit)


def _fixed(question: Question, replicas: int, jit: bool | None) -> Run:
    knobs = question.first_knobs(replicas)
    return question.play(Fixed(knobs), knobs, jit=jit)
