"""What the endpoint counts, in a registry of its own."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

BUCKETS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
DISCONNECTED: Final = "disconnected"
"""In the place of a status: the client left before its answer was whole."""


class EndpointMetrics:
    """The series. `client` is the name of an API key, empty where none is asked for."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.in_flight = Gauge("llm_openai_requests_in_flight", "Requests being answered", registry=self.registry)
        self._requests = Counter(
            "llm_openai_requests", "Requests by outcome", ["endpoint", "status", "client"], registry=self.registry
        )
        self._tokens = Counter("llm_openai_tokens", "Tokens by kind", ["kind", "client"], registry=self.registry)
        self._first = Histogram(
            "llm_openai_time_to_first_token_seconds",
            "From the request to the first byte of its answer",
            ["endpoint"],
            buckets=BUCKETS,
            registry=self.registry,
        )
        self._seconds = Histogram(
            "llm_openai_request_seconds",
            "From the request to the end of its answer",
            ["endpoint"],
            buckets=BUCKETS,
            registry=self.registry,
        )

    def ended(self, endpoint: str, status: str, client: str, seconds: float) -> None:
        """Counts a request that ended."""
        self._requests.labels(endpoint, status, client).inc()
        self._seconds.labels(endpoint).observe(seconds)

    def first_token(self, endpoint: str, seconds: float) -> None:
        """Counts the time until an answer began."""
        self._first.labels(endpoint).observe(seconds)

    def tokens(self, client: str, input_tokens: int, output_tokens: int) -> None:
        """Counts the tokens of a whole answer."""
        self._tokens.labels("prompt", client).inc(input_tokens)
        self._tokens.labels("generated", client).inc(output_tokens)
