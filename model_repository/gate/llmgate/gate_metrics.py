"""What a gate tells of itself, see docs/architecture.md."""

from __future__ import annotations

from enum import StrEnum

from llmserving.metrics import LATENCY_BUCKETS, TOKEN_BUCKETS, MemoryMetrics, Metrics


class Outcome(StrEnum):
    """How a request ended in the gate."""

    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"
    INVALID = "invalid"


class GateMetrics:
    """The gate's series."""

    def __init__(self, metrics: Metrics | None = None) -> None:
        self._metrics = metrics if metrics is not None else MemoryMetrics()
        self.held = self._metrics.gauge(
            "llm_gate_held_requests", "Requests that left Triton's queue and wait for a slot"
        )
        self.admitted = self._metrics.gauge("llm_gate_admitted_requests", "Requests of this gate inside an engine")
        self.free_slots = self._metrics.gauge("llm_gate_free_slots", "Free slots of all engine instances")
        self.missing_engines = self._metrics.gauge(
            "llm_gate_missing_engines", "Engine instances that died and have not come back"
        )
        self.queue_seconds = self._metrics.histogram(
            "llm_gate_queue_seconds", "Seconds a request waited in the gate for a slot", LATENCY_BUCKETS
        )
        self.time_to_first_token = self._metrics.histogram(
            "llm_time_to_first_token_seconds", "Seconds from the gate to the first token", LATENCY_BUCKETS
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

    def finished(self, outcome: Outcome) -> None:
        """Counts one request that ended."""
        self._outcomes[outcome].increment()
