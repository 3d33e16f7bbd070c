"""Figures of the columns, from metrics pages as Triton gives them. Missing is not zero."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from llmservice.api.knobs import Knobs
from llmservice.signals.columns import columns, round_to
from llmservice.signals.scrape import parse
from llmservice.signals.series import percentile
from llmservice.tuning.measured import Measured, Quantiles, Replicas, Signals

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


def signals(**measured: Any) -> Signals:
    return Signals(window_seconds=30, knobs=Knobs(), replicas=Replicas(ready=1), **measured)


def test_columns_show_what_is_known_rounded_as_people_read_it() -> None:
    figures = columns(
        signals(
            queue_depth=Measured.of(5),
            generated=Measured.of(1234.5),
            time_to_first_token=Quantiles(p99=Measured.of(0.12345)),
        ),
        "Pods",
        NOW,
    )
    assert (figures.queue_depth, figures.tokens_per_second, figures.source) == (5, 1200, "Pods")
    assert figures.time_to_first_token_p99 == timedelta(milliseconds=120)


def test_zero_is_shown_and_what_is_missing_or_too_old_is_not() -> None:
    idle = columns(signals(queue_depth=Measured.of(0), generated=Measured.of(0)), "Pods", NOW)
    assert (idle.queue_depth, idle.tokens_per_second) == (0, 0)
    assert idle.time_to_first_token_p99 is None
    gone = columns(signals(queue_depth=Measured.stale(7, age=60)), "Pods", NOW)
    assert (gone.queue_depth, gone.tokens_per_second) == (None, None)


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
