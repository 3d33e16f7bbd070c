"""The engine between the driving thread and vLLM's loop."""

from __future__ import annotations

import time

import pytest

from llmserving.engine import FinishReason, Request, SamplingParameters
from llmvllm.engine import EngineLostError
from tests.unit.vllm_driver.fake_core import BadRequestError, DeadError, FakeCore, completion, driven

pytestmark = pytest.mark.unit


def request(key: int, prompt: str = "hello", **fields: object) -> Request:
    return Request(key, prompt=prompt, **fields)  # type: ignore[arg-type]


def test_what_vllm_gives_in_one_step_comes_in_one_step() -> None:
    with driven() as it:
        it.engine.add(request(1))
        it.engine.add(request(2, priority=3))
        it.core.settle()
        assert [(key, len(tokens), priority) for key, tokens, _, priority in it.core.started] == [
            ("1", 5, 0),
            ("2", 5, 3),
        ]
        assert not it.engine.has_work()
        it.core.step(r1=completion("a", [10]), r2=completion("b", [11]))
        outputs = it.outputs()
        assert [(o.key, o.text, o.token_ids, o.finish_reason) for o in outputs] == [
            (1, "a", (10,), None),
            (2, "b", (11,), None),
        ]
        assert not it.engine.has_work()


def test_the_last_output_counts_tokens() -> None:
    with driven() as it:
        it.engine.add(request(1))
        it.core.settle()
        it.core.step(r1=completion("a", [10]))
        it.outputs()
        it.core.step(r1=completion("b", [11, 12], "length"))
        (last,) = it.outputs()
        assert (last.finish_reason, last.num_input_tokens, last.num_output_tokens) == (FinishReason.LENGTH, 5, 3)
        assert last.ends_request


def test_a_request_that_cannot_be_served_never_reaches_vllm() -> None:
    with driven() as it:
        it.engine.add(request(1, prompt="x" * 32))
        it.engine.add(request(2, sampling=SamplingParameters(top_p=0.0)))
        it.engine.add(Request(3))
        assert it.engine.has_work()
        outputs = it.engine.step()
        assert [(o.key, o.finish_reason, o.invalid) for o in outputs] == [
            (key, FinishReason.ERROR, True) for key in (1, 2, 3)
        ]
        assert "spec.model.maxLength 32" in outputs[0].error
        assert "top_p" in outputs[1].error
        assert it.core.started == []


def test_an_answer_is_no_longer_than_what_fits() -> None:
    with driven() as it:
        it.engine.add(request(1, sampling=SamplingParameters(max_tokens=100)))
        it.core.settle()
        assert it.core.started[0][2]["max_tokens"] == 27


def test_a_cancelled_request_is_aborted_and_ends_once() -> None:
    with driven() as it:
        it.engine.add(request(1))
        it.core.settle()
        it.engine.cancel(1)
        it.engine.cancel(1)
        (output,) = it.outputs()
        assert output.finish_reason is FinishReason.CANCELLED
        assert it.core.aborted == ["1"]
        it.engine.cancel(1)
        it.core.settle()
        assert not it.engine.has_work()
        assert it.engine.status().running == 0


def test_a_deadline_ends_a_request_with_what_it_has() -> None:
    with driven() as it:
        it.engine.add(request(1, deadline=time.monotonic()))
        (output,) = it.outputs()
        assert (output.finish_reason, output.text) == (FinishReason.DEADLINE, "held")
        assert it.core.aborted == ["1"]


def test_a_deadline_ends_a_request_that_still_waits_for_its_batch() -> None:
    with driven() as it:
        it.engine.add(request(1, batch=7, batch_size=1))
        it.engine.add(request(2, batch=8, batch_size=1, deadline=time.monotonic()))
        (output,) = it.outputs()
        assert (output.key, output.finish_reason) == (2, FinishReason.DEADLINE)
        assert [key for key, *_ in it.core.started] == ["1"]


def test_an_error_of_one_request_ends_that_one() -> None:
    with driven() as it:
        it.engine.add(request(1))
        it.engine.add(request(2))
        it.core.settle()
        it.core.step(r1=BadRequestError("no such token"), r2=completion("b", [11]))
        outputs = it.outputs()
        it.core.settle()
        outputs += it.engine.step()
        failed = next(o for o in outputs if o.key == 1)
        assert (failed.finish_reason, failed.error, failed.invalid) == (FinishReason.ERROR, "no such token", True)
        assert any(o.key == 2 and o.text == "b" for o in outputs)


@pytest.mark.parametrize("idle", [True, False])
def test_vllm_that_died_is_told_also_when_nobody_waits(idle: bool) -> None:
    with driven() as it:
        if idle:
            it.core.die()
        else:
            it.engine.add(request(1))
            it.core.settle()
            it.core.step(r1=DeadError("engine core died"))
        assert it.woken.wait(60)
        with pytest.raises(EngineLostError, match="engine core died"):
            it.engine.step()


def test_several_answers_end_one_by_one() -> None:
    with driven() as it:
        it.engine.add(request(1, sampling=SamplingParameters(n=2)))
        it.core.settle()
        assert it.core.started[0][2]["n"] == 2
        it.core.step(r1=completion("a", [10], index=1))
        (first,) = it.outputs()
        assert (first.index, first.text) == (1, "a")


def test_batches_run_one_after_the_other() -> None:
    with driven() as it:
        for key, batch in ((1, 1), (2, 1), (3, 2), (4, 2)):
            it.engine.add(request(key, batch=batch, batch_size=2))
        it.core.settle()
        assert [key for key, *_ in it.core.started] == ["1", "2"]
        it.core.step(r1=completion("a", [10], "stop"))
        it.outputs()
        it.core.settle()
        assert len(it.core.started) == 2
        it.engine.cancel(2)
        it.outputs()
        it.core.settle()
        assert [key for key, *_ in it.core.started] == ["1", "2", "3", "4"]


def test_a_member_that_is_refused_does_not_hold_up_its_batch() -> None:
    with driven() as it:
        it.engine.add(request(1, prompt="", batch=1, batch_size=2))
        it.engine.add(request(2, batch=1, batch_size=2))
        it.core.settle()
        assert [key for key, *_ in it.core.started] == ["2"]


def test_close_ends_vllm() -> None:
    core = FakeCore()
    with driven(core) as it:
        it.engine.close()
        assert core.closed
