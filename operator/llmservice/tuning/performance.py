"""What a replica does under a setting of its knobs, whichever way its engine batches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from llmservice.tuning.batch_model import BatchModel
from llmservice.tuning.batcher import Setting
from llmservice.tuning.continuous import ContinuousModel
from llmservice.tuning.decision import Resource
from llmservice.tuning.service_time import ServiceTime
from llmservice.tuning.settings import Metric, Objective

WITHOUT_OBJECTIVES: Final = 0.7
"""Of what saturates a replica, where no objective says what is too much."""
MOST_LOAD: Final = 0.9
"""Of what saturates a replica, whatever objectives allow: beyond it small errors of the model are large queues."""


class Candidate(NamedTuple):
    """A replica's knobs. `delay` in seconds, `slots` of one instance."""

    instances: int
    delay: float
    slots: int


class Performance(Protocol):
    """One replica's latencies over rate and setting. Rates are requests/s of the replica, times seconds."""

    def candidates(self) -> tuple[Candidate, ...]:
        """The settings it knows."""
        ...

    def mean(self, candidate: Candidate, metric: Metric, rate: float) -> float:
        """Mean of `metric`, as modelled: what measured means are compared with."""
        ...

    def quantile(self, candidate: Candidate, metric: Metric, quantile: float, rate: float) -> float:
        """Quantile of `metric`, corrected by what means were off."""
        ...

    def largest_rate(self, candidate: Candidate, objective: Objective, seconds: float) -> float:
        """Most requests/s at which the objective's quantile is at most `seconds`."""
        ...

    def saturation(self, candidate: Candidate) -> float:
        """Requests/s that saturate it."""
        ...

    def busy(self, candidate: Candidate, rate: float) -> float:
        """Share of time in which the accelerator computes."""
        ...

    def alone(self, metric: Metric) -> float:
        """Seconds of `metric` for a request that meets no other and no delay."""
        ...

    def limiting(self, candidate: Candidate) -> Resource:
        """What would have to grow for more requests/s at any latency."""
        ...


@dataclass(frozen=True)
class BatchPerformance:
    """A replica whose batches run to completion. `steps_per_batch` is 1 unless a batch generates tokens."""

    model: BatchModel
    service_time: ServiceTime
    gains: tuple[float, ...]
    largest: int
    slots: int
    steps_per_batch: float = 1.0
    factors: Mapping[Metric, float] = field(default_factory=dict)

    def candidates(self) -> tuple[Candidate, ...]:
        """See `Performance`."""
        return tuple(Candidate(one.instances, one.delay, self.slots) for one in self.model.settings)

    def mean(self, candidate: Candidate, metric: Metric, rate: float) -> float:
        """See `Performance`. The first token comes with a batch's first step; the others are not waited for."""
        if metric is Metric.PER_OUTPUT_TOKEN:
            return self._step(rate, candidate)
        whole = self.model.mean(_setting(candidate), rate)
        return whole if metric is Metric.LATENCY else max(1e-6, whole - self._later_steps(rate, candidate))

    def quantile(self, candidate: Candidate, metric: Metric, quantile: float, rate: float) -> float:
        """See `Performance`."""
        factor = self.factors.get(metric, 1.0)
        if metric is Metric.PER_OUTPUT_TOKEN:
            return factor * self._step(rate, candidate)
        whole = self.model.quantile(_setting(candidate), rate, quantile)
        return factor * (whole if metric is Metric.LATENCY else max(1e-6, whole - self._later_steps(rate, candidate)))

    def largest_rate(self, candidate: Candidate, objective: Objective, seconds: float) -> float:
        """See `Performance`."""
        seconds /= self.factors.get(objective.metric, 1.0)
        most = MOST_LOAD * self.saturation(candidate)
        if objective.metric is Metric.PER_OUTPUT_TOKEN:
            return most if self._step(most, candidate) <= seconds else 0.0
        if objective.metric is Metric.TIME_TO_FIRST_TOKEN:
            seconds += self._later_steps(0.0, candidate)
        return min(most, self.model.largest_rate(_setting(candidate), objective.quantile, seconds))

    def saturation(self, candidate: Candidate) -> float:
        """See `Performance`."""
        gain = self.gains[min(candidate.instances, len(self.gains)) - 1]
        return gain * self.service_time.throughput(self.largest)

    def busy(self, candidate: Candidate, rate: float) -> float:
        """See `Performance`."""
        return self.model.busy(_setting(candidate), rate)

    def alone(self, metric: Metric) -> float:
        """See `Performance`."""
        whole = self.service_time.seconds(1)
        return self.factors.get(metric, 1.0) * (whole if metric is Metric.LATENCY else whole / self.steps_per_batch)

    def limiting(self, candidate: Candidate) -> Resource:
        """See `Performance`."""
        _ = candidate
        return Resource.COMPUTE

    def _step(self, rate: float, candidate: Candidate) -> float:
        """A step's seconds at the batch that the fixed point b = λ·t(b) gives."""
        batch = 1.0
        gain = self.gains[min(candidate.instances, len(self.gains)) - 1]
        for _ in range(50):
            batch = min(float(self.largest), max(1.0, rate / gain * self.service_time.seconds(batch)))
        return self.service_time.seconds(batch) / self.steps_per_batch

    def _later_steps(self, rate: float, candidate: Candidate) -> float:
        return (self.steps_per_batch - 1.0) * self._step(rate, candidate)


@dataclass(frozen=True)
class TokenPerformance:
    """A replica with continuous batching, with the slots that may be chosen."""

    model: ContinuousModel
    choices: tuple[Candidate, ...]
    lookahead: int
    peak: float = 1.0
    """How many times the mean rate single requests meet in bursts; see `burst.rate_factors`."""
    factors: Mapping[Metric, float] = field(default_factory=dict)

    def candidates(self) -> tuple[Candidate, ...]:
        """See `Performance`."""
        return self.choices

    def mean(self, candidate: Candidate, metric: Metric, rate: float) -> float:
        """See `Performance`."""
        return self.model.mean(metric, rate, self._sequences(candidate))

    def quantile(self, candidate: Candidate, metric: Metric, quantile: float, rate: float) -> float:
        """See `Performance`."""
        rate *= self.peak if quantile > 0.5 else 1.0
        return self.factors.get(metric, 1.0) * self.model.quantile(metric, rate, quantile, self._sequences(candidate))

    def largest_rate(self, candidate: Candidate, objective: Objective, seconds: float) -> float:
        """See `Performance`."""
        seconds /= self.factors.get(objective.metric, 1.0)
        found = self.model.largest_rate(objective.metric, objective.quantile, seconds, self._sequences(candidate))
        return min(found / self.peak, MOST_LOAD * self.saturation(candidate))

    def saturation(self, candidate: Candidate) -> float:
        """See `Performance`."""
        return self.model.saturation(self._sequences(candidate))

    def busy(self, candidate: Candidate, rate: float) -> float:
        """See `Performance`. An engine that runs anything computes all the time."""
        return min(1.0, rate / max(1e-12, self.saturation(candidate)))

    def alone(self, metric: Metric) -> float:
        """See `Performance`."""
        times, demand = self.model.times, self.model.demand
        first = times.step_seconds(1) + times.per_prompt_token * demand.input_tokens
        alone = {
            Metric.TIME_TO_FIRST_TOKEN: first,
            Metric.PER_OUTPUT_TOKEN: times.step_seconds(1),
            Metric.LATENCY: first + demand.output_tokens * times.step_seconds(1),
        }
        return min(1.0, self.factors.get(metric, 1.0)) * alone[metric]

    def limiting(self, candidate: Candidate) -> Resource:
        """See `Performance`."""
        if self._sequences(candidate) < self.model.most_sequences:
            return Resource.SLOTS
        return Resource.KV_CACHE if self.model.kv_limits else Resource.COMPUTE

    def _sequences(self, candidate: Candidate) -> float:
        return max(1.0, candidate.slots - self.lookahead)


def capacity(
    performance: Performance, candidate: Candidate, objectives: tuple[Objective, ...], margin: float
) -> tuple[float, Objective | None]:
    """Most requests/s at which every objective holds with `margin` (0.9: at 90 % of it), and the one that binds.

    Without objectives a share of what saturates it, and None.
    """
    best, binding = math.inf, None
    for objective in objectives:
        rate = performance.largest_rate(candidate, objective, margin * objective.seconds)
        if rate < best:
            best, binding = rate, objective
    if binding is None:
        return WITHOUT_OBJECTIVES * performance.saturation(candidate), None
    return best, binding


def _setting(candidate: Candidate) -> Setting:
    return Setting(candidate.instances, candidate.delay)
