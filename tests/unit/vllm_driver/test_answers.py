"""vLLM's outputs in our words."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from llmserving.engine import FinishReason, TokenLogprob
from llmvllm.answers import Answers
from tests.unit.vllm_driver.fake_core import completion

pytestmark = pytest.mark.unit


def logprob(value: float, text: str) -> SimpleNamespace:
    return SimpleNamespace(logprob=value, decoded_token=text, rank=1)


def test_each_answer_ends_by_itself_and_the_last_ends_the_request() -> None:
    answers = Answers(1, 2, 5, None)
    (first,) = answers.take([completion("a", [1], "stop", index=1)])
    assert (first.index, first.unfinished, first.ends_request) == (1, 1, False)
    (second,) = answers.take([completion("b", [2], "length", index=0)])
    assert (second.index, second.unfinished, second.ends_request) == (0, 0, True)
    assert answers.ended
    assert answers.end(FinishReason.CANCELLED) == []


def test_a_deadline_ends_every_answer_and_the_rest_the_whole_request() -> None:
    answers = Answers(1, 3, 5, None)
    answers.take([completion("a", [1], "stop", index=0)])
    ended = answers.end(FinishReason.DEADLINE)
    assert [(o.index, o.unfinished) for o in ended] == [(1, 1), (2, 0)]
    (cancelled,) = Answers(1, 3, 5, None).end(FinishReason.CANCELLED)
    assert cancelled.ends_request


def test_an_abort_that_nobody_asked_for_is_an_error() -> None:
    answers = Answers(1, 2, 5, None)
    (output,) = answers.take([completion("a", [], "abort", index=0)])
    assert output.finish_reason is FinishReason.ERROR
    assert "abort" in output.error
    assert output.ends_request


def test_logprobs_are_of_the_new_tokens_with_the_likeliest_beside() -> None:
    answers = Answers(1, 1, 5, 1)
    position = {7: logprob(-2.0, "x"), 8: logprob(-0.5, "y")}
    (output,) = answers.take([completion("x", [7], logprobs=[{1: logprob(-9, "old")}, position])])
    assert output.logprobs == (TokenLogprob(7, "x", -2.0, ((8, "y", -0.5),)),)


def test_logprobs_without_any_beside() -> None:
    (output,) = Answers(1, 1, 5, 0).take([completion("x", [7], logprobs=[{7: logprob(-2.0, "x")}])])
    assert output.logprobs == (TokenLogprob(7, "x", -2.0),)
