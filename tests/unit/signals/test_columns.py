"""Figures of the columns, from metrics pages as Triton gives them. Missing is not zero."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from llmservice.signals.columns import Reading, columns, round_to
from llmservice.signals.scrape import Sample, ScrapeError, parse
from llmservice.signals.series import percentile
from llmservice.signals.watch import INTERVAL, SignalsWatch

pytestmark = pytest.mark.unit

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PAGE = """\
# HELP nv_inference_pending_request_count Instantaneous number of pending requests awaiting execution per-model
# TYPE nv_inference_pending_request_count gauge
nv_inference_pending_request_count{model="chat",version="1"} 3
nv_inference_pending_request_count{model="chat-engine",version="1"} 9
# HELP llm_gate_held_requests Requests inside execute
# TYPE llm_gate_held_requests gauge
llm_gate_held_requests{model="chat",version="1",instance="a"} 1
llm_gate_held_requests{model="chat",version="1",instance="b"} 2
# HELP llm_engine_tokens_total Tokens by kind
# TYPE llm_engine_tokens_total counter
llm_engine_tokens_total{model="chat-engine",kind="generated",instance="c"} 1000
llm_engine_tokens_total{model="chat-engine",kind="prompt",instance="c"} 50
# HELP llm_time_to_first_token_seconds Time to first token
# TYPE llm_time_to_first_token_seconds histogram
llm_time_to_first_token_seconds_bucket{model="chat",instance="a",le="0.1"} 40
llm_time_to_first_token_seconds_bucket{model="chat",instance="a",le="0.5"} 50
llm_time_to_first_token_seconds_bucket{model="chat",instance="a",le="+Inf"} 50
llm_time_to_first_token_seconds_bucket{model="chat",instance="b",le="0.1"} 50
llm_time_to_first_token_seconds_bucket{model="chat",instance="b",le="0.5"} 50
llm_time_to_first_token_seconds_bucket{model="chat",instance="b",le="+Inf"} 50
llm_time_to_first_token_seconds_sum{model="chat",instance="a"} 5
llm_time_to_first_token_seconds_count{model="chat",instance="a"} 50
"""


def reading(at: float, **pods: Sample | None) -> Reading:
    return Reading(at, pods)


def sample(waiting: float | None = 0, tokens: float | None = 0, **buckets: float) -> Sample:
    return Sample(waiting, tokens, {float(end): count for end, count in buckets.items()})


def test_a_page_is_reduced_to_queue_tokens_and_first_tokens_of_the_service_alone() -> None:
    found = parse(PAGE, "chat")
    assert found.waiting == 6
    assert found.generated_tokens == 1000
    assert found.first_tokens == {0.1: 90, 0.5: 100, float("inf"): 100}
    assert found.gate_processes == 2


def test_what_is_not_on_the_page_is_missing() -> None:
    found = parse("", "chat")
    assert found.waiting is None
    assert found.generated_tokens is None


def test_queues_add_up_over_the_pods() -> None:
    figures = columns(None, reading(0, a=sample(2), b=sample(3)), NOW)
    assert figures is not None
    assert figures.queue_depth == 5
    assert figures.source == "Pods"


def test_a_pod_that_does_not_answer_makes_the_sum_unknown_and_not_smaller() -> None:
    before = reading(0, a=sample(1, 10), b=sample(1, 10))
    figures = columns(before, reading(30, a=sample(2, 40), b=None), NOW)
    assert figures is not None
    assert figures.queue_depth is None
    assert figures.tokens_per_second is None


def test_a_rate_needs_two_looks() -> None:
    first = columns(None, reading(0, a=sample(0, 100)), NOW)
    second = columns(reading(0, a=sample(0, 100)), reading(30, a=sample(0, 400)), NOW)
    assert first is not None
    assert first.tokens_per_second is None
    assert second is not None
    assert second.tokens_per_second == 10


def test_a_pod_that_began_again_counts_from_zero() -> None:
    figures = columns(reading(0, a=sample(0, 5000)), reading(30, a=sample(0, 60), b=sample(0, 30)), NOW)
    assert figures is not None
    assert figures.tokens_per_second == 3


def test_an_idle_service_gives_zero_tokens_and_no_percentile() -> None:
    idle = sample(0, 70, **{"0.1": 9, "inf": 9})
    figures = columns(reading(0, a=idle), reading(30, a=idle), NOW)
    assert figures is not None
    assert figures.tokens_per_second == 0
    assert figures.time_to_first_token_p99 is None


def test_the_percentile_is_of_what_came_since_the_last_look() -> None:
    before = sample(0, 0, **{"0.1": 1000, "0.5": 1000, "inf": 1000})
    after = sample(0, 0, **{"0.1": 1000, "0.5": 1100, "inf": 1100})
    figures = columns(reading(0, a=before), reading(30, a=after), NOW)
    assert figures is not None
    assert figures.time_to_first_token_p99 == timedelta(milliseconds=500)


def test_without_pods_there_are_no_figures() -> None:
    assert columns(None, reading(0), NOW) is None


@pytest.mark.parametrize(
    ("counts", "quantile", "expected"),
    [
        ({}, 0.99, None),
        ({1.0: 0.0, float("inf"): 0.0}, 0.99, None),
        ({1.0: 10.0, float("inf"): 10.0}, 0.5, 0.5),
        ({1.0: 5.0, 2.0: 10.0, float("inf"): 10.0}, 0.75, 1.5),
        ({1.0: 5.0, float("inf"): 10.0}, 0.99, 1.0),
    ],
)
def test_a_percentile_is_linear_in_its_bucket(counts: dict[float, float], quantile: float, expected: float) -> None:
    assert percentile(counts, quantile) == expected


@pytest.mark.parametrize(("value", "expected"), [(0, 0), (1234.5, 1200), (0.0456, 0.046), (9.99, 10)])
def test_noise_is_rounded_away(value: float, expected: float) -> None:
    assert round_to(value, 2) == pytest.approx(expected)


class Pages:
    """Pods whose queue a test sets."""

    def __init__(self) -> None:
        self.waiting: float | None = 0.0
        self.reads = 0

    async def read(self, url: str, service: str) -> Sample:
        self.reads += 1
        if self.waiting is None:
            raise ScrapeError(url)
        return sample(self.waiting)


class Turns:
    """A clock of which each wait is one turn: `INTERVAL` passes, and after the last the watch is told to stop."""

    def __init__(self, turns: int, stop: asyncio.Event, at_turn: Any) -> None:
        self.left, self.stop, self.at_turn, self.elapsed = turns, stop, at_turn, 0.0

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.elapsed)

    def monotonic(self) -> float:
        return self.elapsed

    async def wait(self, event: asyncio.Event, seconds: float | None) -> None:
        self.elapsed += INTERVAL
        self.left -= 1
        self.at_turn(self.left)
        if self.left <= 0:
            self.stop.set()


async def test_a_service_is_woken_only_when_its_figures_changed() -> None:
    stop, pages = asyncio.Event(), Pages()
    woken: list[tuple[str, str]] = []

    def at_turn(left: int) -> None:
        if left == 2:
            pages.waiting = 7.0

    watch = SignalsWatch(pages, Turns(5, stop, at_turn), woken.append)
    watch.watch(("default", "chat"), {"uid": "http://pod/metrics"})
    await watch.run(stop)
    assert pages.reads == 5
    # The first look, the first rate, the new queue: three changes in five looks.
    assert len(woken) == 3
    latest = watch.latest(("default", "chat"))
    assert latest is not None
    assert latest.queue_depth == 7


async def test_a_service_without_ready_pods_is_not_read_and_has_no_figures() -> None:
    stop, pages = asyncio.Event(), Pages()
    watch = SignalsWatch(pages, Turns(2, stop, lambda _: None), lambda _: None)
    watch.watch(("default", "chat"), {"uid": "http://pod/metrics"})
    watch.watch(("default", "chat"), {})
    await watch.run(stop)
    assert pages.reads == 0
    assert watch.latest(("default", "chat")) is None
