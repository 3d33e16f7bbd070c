"""A service in a few lines: settings, and windows whose figures follow from a rate and an engine."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from llmservice.api.batching import BatchingMode
from llmservice.api.knobs import Knobs
from llmservice.api.operations import TuningMode
from llmservice.tuning.decide import decide
from llmservice.tuning.decision import Decision
from llmservice.tuning.measured import (
    MISSING,
    Batches,
    Measured,
    PodReport,
    Quantiles,
    Replicas,
    Signals,
    Steps,
    Validity,
)
from llmservice.tuning.metric import Metric
from llmservice.tuning.settings import Bounds, Costs, Limits, Objective, Settings
from llmservice.tuning.state import State

WINDOW = 30.0
OVERHEAD, PER_REQUEST, LARGEST = 0.010, 0.001, 64


def frame(**changes: Any) -> Settings:
    """Engine A with an objective of 100 ms; at most eight replicas, one instance each."""
    settings = Settings(
        mode=TuningMode.AUTO,
        batching=BatchingMode.DYNAMIC,
        objectives=(Objective(Metric.LATENCY, 0.99, 0.100),),
        bounds=Bounds(max_replicas=8),
        limits=Limits(max_sequences=LARGEST, instances_in_memory=2),
        costs=Costs(cold_start=180.0),
        canary=False,
    )
    return replace(settings, **changes)


def knobs(replicas: int = 1, delay: float = 0.0, instances: int = 1) -> Knobs:
    return Knobs(
        max_queue_delay=timedelta(seconds=delay), engine_instances=instances, slots=LARGEST + 2, replicas=replicas
    )


def window(rate: float, in_force: Knobs, ready: int | None = None, **changes: Any) -> Signals:
    """What engine A at `rate` requests/s over all replicas measures, near enough: batches about b = λt*."""
    ready = in_force.replicas if ready is None else ready
    each = rate / max(1, ready)
    load = min(0.97, each * PER_REQUEST)
    seconds = OVERHEAD / (1.0 - load)
    middle = max(1.0, min(float(LARGEST), each * seconds))
    sizes = sorted({max(1, round(middle * share)) for share in (0.5, 0.8, 1.0, 1.2, 1.5)})
    sizes = [min(LARGEST, size) for size in sizes]
    batches = rate * WINDOW / middle / len(sizes)
    steps = tuple(Steps(size, batches, batches * (OVERHEAD + PER_REQUEST * size)) for size in sorted(set(sizes)))
    waiting = in_force.replicas - ready
    signals = Signals(
        window_seconds=WINDOW,
        knobs=in_force,
        replicas=Replicas(ready=ready, starting=(30.0,) * max(0, waiting)),
        arrivals=Measured.of(rate, samples=4),
        arrival_counts=(rate * WINDOW / 2, rate * WINDOW / 2) if rate else (0.0, 0.0),
        rejections=Measured.of(0.0),
        failures=Measured.of(0.0),
        completions=Measured.of(rate),
        queue_depth=Measured.of(0.0),
        steps=steps if rate else (),
        batches=tuple(Batches(one.batch_size, one.count) for one in steps) if rate else (),
        latency=Quantiles(mean=Measured.of(1.4 * seconds, samples=int(rate * WINDOW))) if rate else Quantiles(),
        waiting=Measured.of(0.0),
        running=Measured.of(middle if rate else 0.0),
        pods=tuple(PodReport(f"chat-{place}", Validity.FRESH, 600.0) for place in range(ready)),
    )
    return replace(signals, **changes)


def blind(in_force: Knobs, validity: Validity = Validity.MISSING) -> Signals:
    """A window of which nothing is known but what the API server says."""
    stale = validity is Validity.STALE
    return Signals(
        window_seconds=WINDOW,
        knobs=in_force,
        replicas=Replicas(ready=in_force.replicas),
        arrivals=Measured.stale(100.0, age=90.0) if stale else MISSING,
        pods=tuple(PodReport(f"chat-{place}", validity, 600.0) for place in range(in_force.replicas)),
    )


@dataclass
class Service:
    """A service that does at once what the tuner says; `now` moves by a window each time."""

    settings: Settings = field(default_factory=frame)
    knobs: Knobs = field(default_factory=knobs)
    state: State = field(default_factory=State)
    now: float = 1_000_000.0
    decisions: list[Decision] = field(default_factory=list)

    def see(self, signals: Signals) -> Decision:
        """One window with these very signals."""
        self.now += signals.window_seconds
        decision, self.state = decide(self.settings, signals, self.state, self.now)
        self.decisions.append(decision)
        self.knobs = decision.knobs
        return decision

    def serve(self, rate: float, windows: int = 1, **changes: Any) -> Decision:
        """Windows of a steady rate."""
        for _ in range(windows):
            decision = self.see(window(rate, self.knobs, **changes))
        return decision

    @property
    def moves(self) -> list[tuple[str, float, float]]:
        """(knob, old, new) of everything that was done."""
        return [(one.knob.value, one.old, one.new) for decision in self.decisions for one in decision.actions]
