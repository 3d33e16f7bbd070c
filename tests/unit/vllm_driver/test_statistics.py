"""vLLM's statistics as the engine's series."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from llmserving.engine_metrics import EngineMetrics
from llmserving.metrics import Histogram, MemoryMetrics
from llmvllm.statistics import Statistics

pytestmark = pytest.mark.unit


def scheduler(running: int = 0, waiting: int = 0, **fields: object) -> SimpleNamespace:
    return SimpleNamespace(num_running_reqs=running, num_waiting_reqs=waiting, **fields)


def iteration(
    first: tuple[float, ...] = (), finished: tuple[float, ...] = (), between: tuple[float, ...] = (), preempted: int = 0
) -> SimpleNamespace:
    return SimpleNamespace(
        time_to_first_tokens_iter=list(first),
        finished_requests=[SimpleNamespace(queued_time=seconds) for seconds in finished],
        inter_token_latencies_iter=list(between),
        num_preempted_reqs=preempted,
    )


def make(*times: float) -> tuple[Statistics, MemoryMetrics]:
    series, clock = MemoryMetrics(), iter(times)
    return Statistics(EngineMetrics(series), series, clock=lambda: next(clock)), series


def test_steps_are_counted_by_batch_size_with_vllms_own_times() -> None:
    statistics, series = make(0.0)
    details = SimpleNamespace(num_ctx_requests=1, num_generation_requests=3, elapsed_ms=20.0)
    statistics.record(scheduler(4, iteration_details=details), iteration())
    assert series.value("llm_engine_steps_total", batch_size="4") == 1
    assert series.value("llm_engine_step_seconds_total", batch_size="4") == pytest.approx(0.02)


def test_a_vllm_that_does_not_time_its_steps_is_timed_between_them() -> None:
    statistics, series = make(10.0, 10.5, 11.0, 20.0)
    statistics.record(scheduler(2), iteration())  # the first after an idle time tells nothing
    statistics.record(scheduler(1), iteration(finished=(0.1,)))
    assert series.value("llm_engine_step_seconds_total", batch_size="2") == pytest.approx(0.5)
    statistics.record(scheduler(0), iteration(finished=(0.1,)))
    statistics.record(scheduler(1), iteration())
    assert series.value("llm_engine_steps_total", batch_size="1") == 1


def test_the_status_is_what_was_told_and_can_be() -> None:
    statistics, _ = make(0.0, 1.0)
    prefix = SimpleNamespace(queries=10, hits=4)
    statistics.record(
        scheduler(5, 2, num_skipped_waiting_reqs=1, kv_cache_usage=0.5, prefix_cache_stats=prefix), iteration()
    )
    statistics.record(scheduler(5, 2, kv_cache_usage=0.5, prefix_cache_stats=prefix), iteration(preempted=2))
    status = statistics.status(inside=6)
    assert (status.running, status.waiting, status.kv_cache_usage) == (5, 1, 0.5)
    assert (status.prefix_cache_queries, status.prefix_cache_hits, status.preemptions) == (20, 8, 2)
    assert status.batch_size == 0
    left = statistics.status(inside=0)
    assert (left.running, left.waiting) == (0, 0)


def test_latencies() -> None:
    statistics, series = make(0.0, 1.0)
    statistics.record(None, iteration(first=(0.25, 0.5), finished=(0.1, 0.2), between=(0.02, 0.04)))
    statistics.record(None, None)
    assert statistics.status(1).queue_seconds == (0.1, 0.2)
    assert statistics.status(1).queue_seconds == ()
    first = series.series[("llm_engine_time_to_first_token_seconds", ())]
    between = series.series[("llm_engine_inter_token_seconds", ())]
    assert isinstance(first, Histogram)
    assert isinstance(between, Histogram)
    assert first.fresh() == [0.25, 0.5]
    assert between.fresh() == [pytest.approx(0.03)]
