"""What people use instead, each with the constants that its own documentation gives.

All look at the same signals as the tuner. Those that only scale keep the knobs of the engine as they start.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import numpy as np

from llmservice.api.knobs import Knobs
from llmservice.tuning.measured import Signals
from llmservice.tuning.settings import Objective
from llmservice.tuning.simulator.kinds import BatchKind, Kind

PROMPT: Final = 1155.0
ANSWER: Final = 211.0
"""Tokens that profiles are made with."""

Desire = Callable[[Signals, int], float | None]
"""From signals and replicas that are ready to replicas wanted, before rounding; None where the metric is missing."""


@dataclass
class HorizontalAutoscaler:
    """B3, B4 and anything else behind a HorizontalPodAutoscaler with its defaults.

    Sync 15 s, tolerance 0.1, up by 4 pods or 100 % a sync, down only to the largest of the last 300 s
    (kubernetes.io, "Horizontal Pod Autoscaling").
    """

    desire: Desire
    max_replicas: int
    period: float = 15.0
    tolerance: float = 0.1
    down_window: float = 300.0
    _wanted: deque[tuple[float, int]] = field(default_factory=deque)

    def look(self, signals: Signals, now: float) -> Knobs:
        """One sync."""
        current = signals.knobs.replicas
        desired = self.desire(signals, max(1, signals.replicas.ready))
        if desired is None:
            return signals.knobs
        ratio = desired / current
        wanted = current if abs(ratio - 1.0) <= self.tolerance else math.ceil(desired - 1e-9)
        wanted = min(wanted, max(current + 4, 2 * current), self.max_replicas)
        self._wanted.append((now, max(1, wanted)))
        while self._wanted and self._wanted[0][0] < now - self.down_window:
            self._wanted.popleft()
        return signals.knobs.model_copy(update={"replicas": max(count for _, count in self._wanted)})


def queue_to_compute(target: float) -> Desire:
    """B3: NVIDIA's tutorial metric, time queued over time computed, averaged over pods; its default target is 1."""

    def desire(signals: Signals, ready: int) -> float | None:
        waited, latency = signals.queue_seconds.mean.known, signals.latency.mean.known
        if waited is None or latency is None or latency <= waited:
            return None
        return ready * (waited / (latency - waited)) / target

    return desire


def pending(target: float) -> Desire:
    """B4: KEDA on the number of pending requests, an average per replica of 5 or 10."""

    def desire(signals: Signals, _ready: int) -> float | None:
        waiting = signals.queue_depth.known
        return None if waiting is None else max(1.0, waiting / target)

    return desire


@dataclass
class KnativeAutoscaler:
    """B5: Knative's, on concurrency per replica.

    Stable window 60 s, panic window 6 s (here the last scrape), utilisation 0.7 of the target, panic at twice what is
    ready and then never down, down by half at most (knative.dev, "Configuring the Autoscaler").
    """

    target: float
    max_replicas: int
    period: float = 15.0
    _concurrency: deque[float] = field(default_factory=lambda: deque(maxlen=4))
    _panic_until: float = -1.0
    _panic_count: int = 0

    def look(self, signals: Signals, now: float) -> Knobs:
        """One tick of 15 s, which is the scrape interval."""
        waiting, running = signals.queue_depth.known, signals.running.known
        if waiting is None or running is None:
            return signals.knobs
        self._concurrency.append(waiting + running)
        per_replica = 0.7 * self.target
        ready = max(1, signals.replicas.ready)
        stable = math.ceil(sum(self._concurrency) / len(self._concurrency) / per_replica)
        panic = math.ceil(self._concurrency[-1] / per_replica)
        if panic >= 2 * ready:
            self._panic_until = now + 60.0
        wanted = max(stable, math.ceil(ready / 2))
        if now < self._panic_until:
            self._panic_count = max(self._panic_count, panic, signals.knobs.replicas)
            wanted = self._panic_count
        else:
            self._panic_count = 0
        return signals.knobs.model_copy(update={"replicas": min(max(1, wanted), self.max_replicas)})


@dataclass
class SaturationAutoscaler:
    """B6: llm-d's saturation engine, first version.

    A replica is saturated at 0.80 of its cache or 5 waiting; up when the mean spare of the others is below 0.10 or 3,
    down when after N/(N-1) as much load on each both spares are still there; 240 s of stabilisation either way
    (llm-d-workload-variant-autoscaler, `docs/saturation-scaling-config.md`).
    """

    max_replicas: int
    period: float = 30.0
    _moved: float = -1e9

    def look(self, signals: Signals, now: float) -> Knobs:
        """One pass."""
        usage, waiting = signals.kv_usage.known, signals.queue_depth.known
        count, ready = signals.knobs.replicas, max(1, signals.replicas.ready)
        if usage is None or waiting is None or now < self._moved + 240.0 or signals.replicas.starting:
            return signals.knobs
        queue = waiting / ready
        wanted = count
        if 0.80 - usage < 0.10 or 5.0 - queue < 3.0:
            wanted = count + 1
        elif count >= 2:
            more = count / (count - 1)
            if 0.80 - usage * more >= 0.10 and 5.0 - queue * more >= 3.0:
                wanted = count - 1
        if wanted != count:
            self._moved = now
        return signals.knobs.model_copy(update={"replicas": min(max(1, wanted), self.max_replicas)})


@dataclass
class Planner:
    """B7: Dynamo's planner for an objective, in short: replicas = rate to come / profiled rate per replica, corrected.

    The next interval is as the last (its constant predictor); every 180 s; the profile is divided by how much slower
    than profiled the tokens come (NVIDIA Dynamo, `docs/architecture/sla_planner.md`).
    """

    per_replica: float
    """Profiled requests/s of one replica within the objectives."""
    expected: Callable[[float], float]
    """Profiled mean seconds per output token (or per request) at a rate per replica."""
    max_replicas: int
    continuous: bool
    period: float = 180.0

    def look(self, signals: Signals, now: float) -> Knobs:
        """One adjustment interval."""
        _ = now
        rate = signals.arrivals.known
        seen = (signals.per_output_token if self.continuous else signals.latency).mean.known
        if rate is None or seen is None:
            return signals.knobs
        expected = self.expected(rate / max(1, signals.replicas.ready))
        correction = max(1.0, seen / expected) if expected > 0 else 1.0
        wanted = math.ceil(rate * correction / self.per_replica)
        return signals.knobs.model_copy(update={"replicas": min(max(1, wanted), self.max_replicas)})


def profile(kind: Kind) -> Callable[[float], float]:
    """Mean seconds per output token (per request, where batches run to completion) at a rate of one replica.

    The fixed point of the engine's own step times: a batch is what came during the one before; where tokens are
    generated, every prompt holds them up: step / (1 - rate * prompt time), with as many sequences as that makes.
    """
    if isinstance(kind, BatchKind):
        return lambda rate: 1.5 * kind.overhead / max(0.1, 1.0 - rate * kind.per_request)
    sizes, steps = np.array(kind.sizes), np.array([row[1] for row in kind.steps])
    prompt = float(np.interp(PROMPT, kind.prompts, kind.prompt_seconds))

    def seconds(rate: float) -> float:
        step = float(steps[0])
        for _ in range(50):
            step = float(np.interp(rate * ANSWER * step, sizes, steps)) / max(0.2, 1.0 - rate * prompt)
        return step

    return seconds


@dataclass
class AdditiveIncrease:
    """B8: Clipper's AIMD, on the delay: a little more while the objective holds, 10 % less when it does not."""

    objective: Objective
    most: float
    step: float = 0.001
    period: float = 60.0

    def look(self, signals: Signals, now: float) -> Knobs:
        """One window."""
        _ = now
        p99 = signals.latency.p99.known
        if p99 is None:
            return signals.knobs
        delay = signals.knobs.max_queue_delay.total_seconds()
        delay = delay * 0.9 if p99 > self.objective.seconds else min(self.most, delay + self.step)
        return signals.knobs.model_copy(update={"max_queue_delay": timedelta(seconds=round(delay, 6))})


@dataclass
class HillClimb:
    """B9: one knob at a time on the live service: tries a neighbour, keeps it when it is better, else goes back.

    Better: the objective holds with fewer replicas, else the lower p99.
    """

    objective: Objective
    max_replicas: int
    max_instances: int
    delay_step: float
    period: float = 300.0
    _before: tuple[float, Knobs] | None = None
    _turn: int = 0

    def look(self, signals: Signals, now: float) -> Knobs:
        """One trial's end, and the next one's beginning."""
        _ = now
        p99 = signals.of(self.objective.metric).p99.known
        if p99 is None:
            return signals.knobs
        score = self._score(p99, signals.knobs)
        knobs = signals.knobs
        if self._before is not None and score > self._before[0]:
            knobs = self._before[1]
            self._before = None
            return knobs
        self._before = (score, knobs)
        self._turn += 1
        return self._neighbour(knobs, p99 > self.objective.seconds)

    def _score(self, p99: float, knobs: Knobs) -> float:
        if p99 > self.objective.seconds:
            return 1000.0 + p99 / self.objective.seconds
        return knobs.replicas + 0.5 * p99 / self.objective.seconds

    def _neighbour(self, knobs: Knobs, slow: bool) -> Knobs:
        up = slow or self._turn % 6 < 3
        knob = self._turn % 3
        if knob == 0:
            count = min(self.max_replicas, max(1, knobs.replicas + (1 if slow else -1)))
            return knobs.model_copy(update={"replicas": count})
        if knob == 1:
            count = min(self.max_instances, max(1, knobs.engine_instances + (1 if up else -1)))
            return knobs.model_copy(update={"engine_instances": count})
        delay = max(0.0, knobs.max_queue_delay.total_seconds() + (self.delay_step if up else -self.delay_step))
        return knobs.model_copy(update={"max_queue_delay": timedelta(seconds=delay)})
