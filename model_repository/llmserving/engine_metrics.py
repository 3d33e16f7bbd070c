"""What an engine instance tells of itself: exact step times by batch size, tokens, sequences, KV memory."""

from __future__ import annotations

from llmserving.engine import EngineStatus, Output
from llmserving.metrics import LATENCY_BUCKETS, Counter, MemoryMetrics, Metrics


class EngineMetrics:
    """The engine's series, see docs/architecture.md."""

    def __init__(self, metrics: Metrics | None = None) -> None:
        self._metrics = metrics if metrics is not None else MemoryMetrics()
        self._generated = self._tokens("generated")
        self._prompt = self._tokens("prompt")
        self._queue = self._metrics.histogram(
            "llm_engine_queue_seconds", "Seconds a request waited inside the engine", LATENCY_BUCKETS
        )
        self._preemptions = self._metrics.counter(
            "llm_engine_preemptions_total", "Sequences that gave their place away and are computed again"
        )
        self._prefix_queries = self._metrics.counter(
            "llm_engine_prefix_cache_queries_total", "Tokens looked up in the prefix cache"
        )
        self._prefix_hits = self._metrics.counter(
            "llm_engine_prefix_cache_hits_total", "Tokens found in the prefix cache"
        )
        self._waiting = self._metrics.gauge("llm_engine_waiting_sequences", "Sequences that wait inside the engine")
        self._running = self._metrics.gauge("llm_engine_running_sequences", "Sequences that the engine computes")
        self._kv_cache = self._metrics.gauge("llm_engine_kv_cache_usage_ratio", "Share of KV memory in use")

        self.load_seconds = self._metrics.gauge("llm_engine_load_seconds", "Seconds until the weights were loaded")
        self.warm_up_seconds = self._metrics.gauge("llm_engine_warm_up_seconds", "Seconds of requests before the first")

    def stepped(self, status: EngineStatus, outputs: list[Output], seconds: float) -> None:
        """Counts one step of `seconds`."""
        if status.batch_size:  # a step may only drop what was cancelled
            self.computed(status.batch_size, seconds)
        self._generated.increment(sum(len(output.token_ids) for output in outputs))
        self._prompt.increment(sum(output.num_input_tokens for output in outputs if output.ends_request))
        self._waiting.set(status.waiting)
        self._running.set(status.running)
        self._kv_cache.set(status.kv_cache_usage)
        for waited in status.queue_seconds:
            self._queue.observe(waited)
        self._preemptions.reach(status.preemptions)
        self._prefix_queries.reach(status.prefix_cache_queries)
        self._prefix_hits.reach(status.prefix_cache_hits)

    def computed(self, batch_size: int, seconds: float) -> None:
        """Counts one step over `batch_size` sequences; an engine that computes in another process tells by itself."""
        size = str(batch_size)
        self._metrics.counter("llm_engine_steps_total", "Steps by batch size", batch_size=size).increment()
        self._metrics.counter(
            "llm_engine_step_seconds_total", "Seconds of computing by batch size", batch_size=size
        ).increment(seconds)

    def _tokens(self, kind: str) -> Counter:
        return self._metrics.counter("llm_engine_tokens_total", "Tokens by kind", kind=kind)
