"""What a gate tells of itself, see docs/architecture.md."""

from __future__ import annotations

from enum import StrEnum

from llmserving.metrics import LATENCY_BUCKETS, TOKEN_BUCKETS, Gauge, Histogram, MemoryMetrics, Metrics


class Outcome(StrEnum):
    """How a request ended in the gate."""

    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"
    INVALID = "invalid"
    REJECTED = "rejected"


class Rejection(StrEnum):
    """Why a request was refused before it had a slot."""

    FULL = "full"
    TIMEOUT = "timeout"
    NO_ENGINE = "no_engine"


class GateMetrics:
    """The gate's series."""

    def __init__(self, metrics: Metrics | None = None) -> None:
        self._metrics = metrics if metrics is not None else MemoryMetrics()
        self.admitted = self._metrics.gauge("llm_gate_admitted_requests", "Requests of this gate inside an engine")
        self.free_slots = self._metrics.gauge("llm_gate_free_slots", "Free slots of all engine instances")
        self.slots = self._metrics.gauge("llm_gate_slots", "Slots of all engine instances")
        self.missing_engines = self._metrics.gauge(
            "llm_gate_missing_engines", "Engine instances that died and have not come back"
        )
        self.time_per_output_token = self._metrics.histogram(
            "llm_time_per_output_token_seconds", "Mean seconds between a request's tokens", TOKEN_BUCKETS
        )
        self.request_latency = self._metrics.histogram(
            "llm_request_latency_seconds", "Seconds from the gate to the last token", LATENCY_BUCKETS
        )
        self._outcomes = {
            outcome: self._metrics.counter("llm_gate_requests_total", "Requests by outcome", outcome=outcome.value)
            for outcome in Outcome
        }

    def held(self, level: int) -> Gauge:
        """Requests of a level in the line."""
        return self._metrics.gauge(
            "llm_gate_held_requests", "Requests that left Triton's queue and wait for a slot", level=str(level)
        )

    def queue_seconds(self, level: int) -> Histogram:
        """Of requests that had a slot."""
        return self._metrics.histogram(
            "llm_gate_queue_seconds",
            "Seconds a request waited in the gate for a slot",
            LATENCY_BUCKETS,
            level=str(level),
        )

    def time_to_first_token(self, level: int) -> Histogram:
        """From the gate, so the wait for a slot is in it."""
        return self._metrics.histogram(
            "llm_time_to_first_token_seconds",
            "Seconds from the gate to the first token",
            LATENCY_BUCKETS,
            level=str(level),
        )

    def rejected(self, why: Rejection, level: int) -> None:
        """Counts one request that never had a slot."""
        self._metrics.counter(
            "llm_gate_rejected_total", "Requests refused before they had a slot", reason=why.value, level=str(level)
        ).increment()

    def formed(self, size: int) -> None:
        """Counts one group of requests that went to an engine together: a batch, where the mode runs batches."""
        self._metrics.counter(
            "llm_gate_batches_total", "Groups of requests admitted together, by size", batch_size=str(size)
        ).increment()

    def finished(self, outcome: Outcome) -> None:
        """Counts one request that ended."""
        self._outcomes[outcome].increment()
