"""Requests with several answers: when each ends, what is told of it, and what ends them all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from llmserving.engine import FinishReason, Output, Request, SamplingParameters
from llmserving.parameters import Mode
from llmtorch.engine import TorchEngine
from tests.unit.torch_engine.tiny import engine_on, greedy

pytestmark = pytest.mark.unit

THREE = Request(1, prompt="Once upon a time", sampling=SamplingParameters(max_tokens=6, n=3, ignore_eos=True))


@pytest.fixture
def engine(tiny_llama: Path) -> TorchEngine:
    return engine_on(tiny_llama)


def outputs(engine: TorchEngine, *requests: Request, until: Callable[[], bool] = lambda: False) -> list[Output]:
    """All that the engine says until it has nothing left to do, or `until` something."""
    for request in requests:
        engine.add(request)
    told: list[Output] = []
    while engine.has_work() and not until():
        told += engine.step()
    return told


def is_empty(engine: TorchEngine) -> bool:
    return not (engine.has_work() or engine._groups or engine._answers or engine.status().kv_cache_usage)


def test_each_ends_by_itself_and_the_last_ends_the_request(engine: TorchEngine) -> None:
    told = outputs(engine, THREE)
    ends = [output for output in told if output.finish_reason is not None]
    assert {output.index for output in ends} == {0, 1, 2}
    assert [output.unfinished for output in ends] == [2, 1, 0]
    assert [output.ends_request for output in ends] == [False, False, True]
    assert told[-1] is ends[-1]
    for end in ends:
        own = [output for output in told if output.index == end.index]
        assert (end.finish_reason, end.num_input_tokens, end.num_output_tokens) == (FinishReason.LENGTH, 16, 6)
        assert sum(len(output.token_ids) for output in own) == 6
        assert own[-1] is end
    assert is_empty(engine)


def test_the_prompt_is_computed_once(engine: TorchEngine) -> None:
    outputs(engine, THREE)
    status = engine.status()
    assert (status.prefix_cache_queries, status.prefix_cache_hits) == (3 * 16, 2 * 12)


def test_cancelled_all_end_at_once(engine: TorchEngine) -> None:
    engine.add(THREE)
    for _ in range(3):
        engine.step()
    engine.cancel(1)
    assert engine.status().kv_cache_usage == 0
    (last,) = engine.step()
    assert (last.finish_reason, last.ends_request) == (FinishReason.CANCELLED, True)
    assert is_empty(engine)


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_at_the_deadline_each_ends_with_what_it_has(steps: int, tiny_llama: Path) -> None:
    now = [0.0]
    engine = engine_on(tiny_llama, clock=lambda: now[0], max_sequences=2)
    engine.add(replace(THREE, deadline=10.0))
    told = [output for _ in range(steps) for output in engine.step()]
    now[0] = 10.0
    ends = outputs(engine)
    assert {output.index for output in ends} == {0, 1, 2}
    assert all(output.finish_reason is FinishReason.DEADLINE for output in ends)
    assert [output.ends_request for output in ends] == [False, False, True]
    for end in ends:
        assert end.num_output_tokens == sum(output.index == end.index for output in told)
    assert is_empty(engine)


def test_those_that_a_deadline_no_longer_matters_for_are_forgotten(engine: TorchEngine) -> None:
    for key in range(200):
        outputs(engine, replace(greedy(key, "x", max_tokens=1), deadline=1e12))
    assert len(engine._deadlines._heap) < 100


def test_in_a_batch_all_answers_run_before_the_next_batch(tiny_llama: Path) -> None:
    engine = engine_on(tiny_llama, mode=Mode.STATIC)
    told = outputs(engine, replace(THREE, batch=1), replace(greedy(2, "next", max_tokens=2), batch=2))
    last = max(at for at, output in enumerate(told) if output.key == 1)
    assert all(output.key == 2 for output in told[last + 1 :])
    assert min(at for at, output in enumerate(told) if output.key == 2) > last
    assert is_empty(engine)


def test_more_answers_than_sequences_run_one_after_the_other(tiny_llama: Path) -> None:
    engine = engine_on(tiny_llama, mode=Mode.NONE)
    told = outputs(engine, THREE)
    assert sum(output.finish_reason is FinishReason.LENGTH for output in told) == 3


def test_log_probabilities_have_the_tokens_text(engine: TorchEngine) -> None:
    told = outputs(engine, greedy(1, "Once", max_tokens=3, logprobs=2))
    for output in told:
        (one,) = output.logprobs
        assert one.token_id == output.token_ids[0]
        assert one.token == engine._intake.tokenizer.token_text(one.token_id)
        assert (one.token_id, one.token, one.logprob) == one.top[0], "greedy takes the likeliest"
        assert one.logprob > one.top[1][2]


def test_a_stop_string_counts_from_the_least_length_on(engine: TorchEngine) -> None:
    prompt, whole = next(
        (prompt, text)
        for prompt in map(str, range(50))
        if len(text := "".join(output.text for output in outputs(engine, greedy(1, prompt)))) == 12
    )
    stop = whole[1:3]
    told = outputs(engine, greedy(1, prompt, stop=(stop,), min_tokens=5))
    text = "".join(output.text for output in told)
    assert text == whole[: whole.find(stop, 4)] if stop in whole[4:] else whole


def test_how_long_a_request_waited_is_told_once(tiny_llama: Path) -> None:
    now = [5.0]
    engine = engine_on(tiny_llama, clock=lambda: now[0], max_sequences=1)
    engine.add(greedy(1, "a", max_tokens=2))
    engine.add(greedy(2, "b", max_tokens=2))
    told = []
    while engine.has_work():
        engine.step()
        told.append(engine.status().queue_seconds)
        now[0] += 1.0
    assert told == [(0.0,), (), (2.0,), ()]
