"""What was measured of one service in one window. Zero, missing and stale are three different things."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from llmservice.api.knobs import Knobs
from llmservice.tuning.metric import Metric


class Validity(StrEnum):
    """What a figure may be used for."""

    FRESH = "Fresh"
    """Measured within this window."""
    ZERO = "Zero"
    """Measured within this window, and nothing happened: the series is there and did not move."""
    MISSING = "Missing"
    """Not measured: the series is absent, or the pod did not answer. Says nothing about the service."""
    STALE = "Stale"
    """Measured, but too long ago to act on. The last value is kept for people to see."""


@dataclass(frozen=True)
class Measured:
    """One figure. `age` is seconds since its newest sample; `samples` counts what it was made of."""

    value: float | None
    validity: Validity
    age: float = 0.0
    samples: int = 1

    @classmethod
    def of(cls, value: float, *, age: float = 0.0, samples: int = 1) -> Measured:
        """A figure measured in this window."""
        return cls(value, Validity.ZERO if value == 0 else Validity.FRESH, age, samples)

    @classmethod
    def stale(cls, value: float, *, age: float) -> Measured:
        """A figure whose newest sample is too old."""
        return cls(value, Validity.STALE, age)

    @property
    def known(self) -> float | None:
        """The value if it may be acted on, else None. Zero is known."""
        return self.value if self.validity in (Validity.FRESH, Validity.ZERO) else None

    def known_or(self, default: float) -> float:
        """The value if it may be acted on, else `default`."""
        known = self.known
        return default if known is None else known


MISSING: Final = Measured(None, Validity.MISSING, 0.0, 0)


@dataclass(frozen=True)
class Steps:
    """Engine steps of one batch size within the window, summed over instances and pods. Deltas, resets dropped.

    In `Continuous` a step makes one token of each sequence. Where a batch runs to completion it may be many steps.
    """

    batch_size: int
    count: float
    seconds: float


@dataclass(frozen=True)
class RequestCounters:
    """Triton's `nv_inference_*` deltas, the fallback without counters by batch size.

    `compute_seconds` is added once per request of a batch, not once per execution (core/src/infer_stats.cc,
    UpdateSuccessWithDuration), so it weighs a batch by its size.
    """

    requests: float
    executions: float
    compute_seconds: float


@dataclass(frozen=True)
class Batches:
    """Batches of one size that the gate formed within the window."""

    size: int
    count: float


@dataclass(frozen=True)
class Quantiles:
    """Quantiles of a latency over the window, in seconds; a quantile's `samples` are requests.

    The mean is exact, being a sum over a count. Of a histogram's quantile no more is known than its bucket.
    """

    mean: Measured = MISSING
    p50: Measured = MISSING
    p90: Measured = MISSING
    p99: Measured = MISSING

    def at(self, quantile: float) -> Measured:
        """The figure of 0.5, 0.9 or 0.99. Raises KeyError for another quantile."""
        return {0.5: self.p50, 0.9: self.p90, 0.99: self.p99}[quantile]


UNKNOWN_QUANTILES: Final = Quantiles()


@dataclass(frozen=True)
class PodReport:
    """Whether one pod's figures are in the sums. `ready_for` is seconds since it became ready; None if it is not."""

    name: str
    validity: Validity
    ready_for: float | None = None


@dataclass(frozen=True)
class Replicas:
    """Replicas as the API server has them.

    Ages are seconds since the pod was created. `pending` pods have no node, `starting` ones have one and are not
    ready. `cold_starts` are the seconds from creation to ready of those that became ready in this window.
    """

    ready: int
    starting: tuple[float, ...] = ()
    pending: tuple[float, ...] = ()
    terminating: int = 0
    cold_starts: tuple[float, ...] = ()

    @property
    def supplied(self) -> int:
        """Replicas that serve or soon will: a replica on its way is not asked for twice."""
        return self.ready + len(self.starting) + len(self.pending)


class UnderWay(StrEnum):
    """What makes this window's figures speak of something other than the knobs."""

    ROLLOUT = "Rollout"
    DRAIN = "Drain"
    USER_CHANGE = "UserChange"
    LIVE_CHANGE = "LiveChange"
    """A change of ours that has not reached every pod yet, or is not verified."""
    LIVE_FAILURE = "LiveFailure"
    """A change of ours that a pod did not take."""


@dataclass(frozen=True)
class Turn:
    """When a service may begin a reload or another count of instances, as far as other services go. 0: at once."""

    free_at: float = 0.0
    reason: str = ""
    """Why not before, in words."""


AT_ONCE: Final = Turn()


@dataclass(frozen=True)
class CanaryReport:
    """One replica with the new setting beside the others, over one window. `slow`: above the objective."""

    requests: float
    slow: float
    failures: float
    control_requests: float
    control_slow: float
    control_failures: float


@dataclass(frozen=True)
class Signals:
    """One service over one window. Windows follow each other without overlap; rates are per second, over all replicas.

    Everything but `knobs`, `replicas` and `window_seconds` may be missing. `knobs` are those in force on the pods.
    """

    window_seconds: float
    knobs: Knobs
    replicas: Replicas
    arrivals: Measured = MISSING
    """Requests/s that came, refused ones included: a counter at the gate, not completions (server#5927)."""
    arrival_counts: tuple[float, ...] = ()
    """Arrivals of the window by equal parts of it (one per scrape), oldest first: what burstiness is learnt from."""
    rejections: Measured = MISSING
    """Requests/s refused because a queue was full."""
    failures: Measured = MISSING
    """Requests/s that failed for any other reason than their client."""
    completions: Measured = MISSING
    generated: Measured = MISSING
    """Tokens/s given, those of answers still under way included."""
    queue_depth: Measured = MISSING
    """Requests that wait at the window's end: Triton's pending plus what the gates hold."""
    steps: tuple[Steps, ...] = ()
    """Empty where the engine counts none, or nothing ran."""
    request_counters: RequestCounters | None = None
    batches: tuple[Batches, ...] = ()
    latency: Quantiles = UNKNOWN_QUANTILES
    time_to_first_token: Quantiles = UNKNOWN_QUANTILES
    per_output_token: Quantiles = UNKNOWN_QUANTILES
    queue_seconds: Quantiles = UNKNOWN_QUANTILES
    """Time before the engine takes the request, the gate's delay included."""
    input_tokens: Measured = MISSING
    """Mean per completed request; so is `output_tokens`."""
    output_tokens: Measured = MISSING
    kv_usage: Measured = MISSING
    """0 to 1, the fullest replica's mean over the window."""
    waiting: Measured = MISSING
    """Sequences inside engines that are not computed, over all replicas, at the window's end; so is `running`."""
    running: Measured = MISSING
    pods: tuple[PodReport, ...] = ()
    free_accelerators: Measured = MISSING
    """Accelerators of the pool that nobody uses; missing where nobody counts them."""
    under_way: tuple[UnderWay, ...] = ()
    replicas_owner: str = ""
    """Who else writes replicas, such as `HorizontalPodAutoscaler chat`; empty: only the operator does."""
    canary: CanaryReport | None = None
    """What the replica did that tries another setting; None where none does, or it was not read."""
    canary_knobs: Knobs | None = None
    """That replica's knobs, while `knobs` are everybody else's."""
    turn: Turn = AT_ONCE
    fault: str = ""
    """What is wrong with where the signals come from, in words; empty: it answers."""
    contradictions: tuple[str, ...] = field(default=())
    """In words, where independent sources of the signals disagree; empty: none do."""

    def of(self, metric: Metric) -> Quantiles:
        """What was measured of `metric`."""
        return {
            Metric.LATENCY: self.latency,
            Metric.TIME_TO_FIRST_TOKEN: self.time_to_first_token,
            Metric.PER_OUTPUT_TOKEN: self.per_output_token,
        }[metric]
