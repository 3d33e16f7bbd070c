"""The line of figures, from metrics pages."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from llmservice.local.figures import Figures, mean_batch, read_page
from llmservice.tuning.measured import Steps

pytestmark = pytest.mark.unit

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def page(tokens: int, steps: int, first_tokens: int = 1) -> str:
    return f"""# HELP nv_inference_pending_request_count Instantaneous number of pending requests awaiting execution
# TYPE nv_inference_pending_request_count gauge
nv_inference_pending_request_count{{model="chat",version="1"}} 3
llm_gate_held_requests{{model="chat",instance="a"}} 1
llm_gate_held_requests{{model="chat",instance="b"}} 0
llm_time_to_first_token_seconds_bucket{{model="chat",le="0.1"}} {first_tokens}
llm_time_to_first_token_seconds_bucket{{model="chat",le="+Inf"}} {first_tokens}
llm_engine_running_sequences{{model="chat-engine",instance="c"}} 8
llm_engine_tokens_total{{model="chat-engine",kind="generated"}} {tokens}
llm_time_to_first_token_seconds_count{{model="chat"}} {first_tokens}
llm_engine_steps_total{{model="chat-engine",batch_size="4"}} {steps}
llm_engine_steps_total{{model="chat-engine",batch_size="8"}} {steps}
llm_engine_step_seconds_total{{model="chat-engine",batch_size="4"}} {steps}
llm_engine_step_seconds_total{{model="chat-engine",batch_size="8"}} {steps}
llm_gate_requests_total{{model="chat",outcome="completed"}} {first_tokens}
"""


def test_without_a_look_nothing_is_known() -> None:
    assert Figures("chat").line(NOW) == "no figures yet"


def test_one_look_gives_no_rates() -> None:
    figures = Figures("chat")
    figures.add(read_page(page(0, 0), "chat", 10.0))
    assert figures.line(NOW) == "queue 4 · running 8 · batch - · - tokens/s · TTFT p99 - ms"


def test_rates_are_over_seconds_and_the_percentile_over_a_minute() -> None:
    figures = Figures("chat")
    for second in range(91):
        figures.add(read_page(page(second * 50, second * 10, 1 + min(second, 50)), "chat", float(second)))
    assert figures.line(NOW) == "queue 4 · running 8 · batch 6 · 50 tokens/s · TTFT p99 99 ms"


def test_after_a_restart_counters_begin_again() -> None:
    figures = Figures("chat")
    figures.add(read_page(page(9000, 900), "chat", 0.0))
    figures.restart()
    figures.add(read_page(page(0, 0), "chat", 1.0))
    figures.add(read_page(page(30, 0), "chat", 2.0))
    assert "30 tokens/s" in figures.line(NOW)


def test_gate_processes_are_counted() -> None:
    assert read_page(page(0, 0), "chat", 0.0).sample.gate_processes == 2


def test_the_mean_batch_is_weighted_by_steps() -> None:
    assert mean_batch([Steps(4, 10, 1.0), Steps(16, 30, 1.0)]) == 13
    assert mean_batch([]) is None
