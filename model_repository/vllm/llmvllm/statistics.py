"""vLLM's own statistics, step by step -> the engine's series and status."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from llmserving.engine import EngineStatus
from llmserving.engine_metrics import EngineMetrics
from llmserving.metrics import LATENCY_BUCKETS, TOKEN_BUCKETS, Metrics


@dataclass(frozen=True)
class _Step:
    batch_size: int
    seconds: float


class Statistics:
    """Takes what vLLM's stat logger is given after each step, in vLLM's thread; `status` is read in another.

    Duck-typed: vLLM says of its statistics that they may change with any version, so a field that one lacks is one
    that this version does not tell.
    """

    def __init__(self, metrics: EngineMetrics, series: Metrics, clock: Callable[[], float] = time.monotonic) -> None:
        self._metrics = metrics
        self._first_token = series.histogram(
            "llm_engine_time_to_first_token_seconds",
            "Seconds from a request's arrival in the engine to its first token",
            LATENCY_BUCKETS,
        )
        self._between_tokens = series.histogram(
            "llm_engine_inter_token_seconds",
            "Seconds between two tokens of a sequence, one observation a step: the mean over its sequences",
            TOKEN_BUCKETS,
        )
        self._clock = clock
        self._status = EngineStatus()
        self._waited: deque[float] = deque()
        self._last_record: float | None = None

    def record(self, scheduler: Any | None, iteration: Any | None) -> None:
        """Counts one step: `SchedulerStats` and `IterationStats` of vLLM, each None where the step has none."""
        now = self._clock()
        if iteration is not None:
            self._count(iteration)
        if scheduler is not None:
            step = self._step(scheduler, iteration, now)
            if step is not None:
                self._metrics.computed(step.batch_size, step.seconds)
            self._take(scheduler)
        self._last_record = now if self._status.running else None

    def status(self, inside: int) -> EngineStatus:
        """What the engine does; `inside` is how many sequences it holds.

        vLLM tells nothing between steps, so what it told last is bounded by what can be: clients may have left.
        """
        waited = []
        while self._waited:
            waited.append(self._waited.popleft())
        running = min(self._status.running, inside)
        return replace(
            self._status,
            running=running,
            waiting=min(self._status.waiting, inside - running),
            queue_seconds=tuple(waited),
        )

    def _take(self, scheduler: Any) -> None:
        prefix = getattr(scheduler, "prefix_cache_stats", None)
        skipped = getattr(scheduler, "num_skipped_waiting_reqs", 0)
        self._status = replace(
            self._status,
            waiting=scheduler.num_waiting_reqs + skipped,
            running=scheduler.num_running_reqs,
            kv_cache_usage=float(getattr(scheduler, "kv_cache_usage", 0.0)),
            prefix_cache_queries=self._status.prefix_cache_queries + (prefix.queries if prefix else 0),
            prefix_cache_hits=self._status.prefix_cache_hits + (prefix.hits if prefix else 0),
        )

    def _step(self, scheduler: Any, iteration: Any | None, now: float) -> _Step | None:
        """Exact where vLLM measures its steps, else the time since the last one while it was busy."""
        details = getattr(scheduler, "iteration_details", None)
        if details is not None:
            size = details.num_ctx_requests + details.num_generation_requests
            return _Step(size, details.elapsed_ms / 1e3) if size else None
        if self._last_record is None or iteration is None:
            return None
        size = scheduler.num_running_reqs + len(iteration.finished_requests)
        return _Step(size, now - self._last_record) if size else None

    def _count(self, iteration: Any) -> None:
        if preempted := getattr(iteration, "num_preempted_reqs", 0):
            self._status = replace(self._status, preemptions=self._status.preemptions + preempted)
        self._waited.extend(finished.queued_time for finished in iteration.finished_requests)
        for seconds in iteration.time_to_first_tokens_iter:
            self._first_token.observe(seconds)
        # One observation a step: its sequences get their tokens together, and each observation costs a round trip.
        between = getattr(iteration, "inter_token_latencies_iter", None)
        if between:
            self._between_tokens.observe(sum(between) / len(between))
