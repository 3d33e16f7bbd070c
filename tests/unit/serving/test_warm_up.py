"""The warm-up: an engine has computed before anybody asks it, and what it cannot do is known at the load."""

from __future__ import annotations

from collections import deque

import pytest

from llmserving.engine import EngineStatus, FinishReason, Output, Request
from llmserving.warm_up import LIMIT_SECONDS, MOST_TOGETHER, TOKENS, WarmUpError, warm_up
from tests.serving.paced.paced_engine import PacedEngine

pytestmark = pytest.mark.unit


class Clock:
    """Time that passes with every pause."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += max(seconds, 1.0)


class Engine:
    """Answers each request with `answer`; None for one that never ends by itself."""

    def __init__(self, answer: Output | None) -> None:
        self._answer = answer
        self._out: deque[Output] = deque()
        self.taken: list[Request] = []
        self.cancelled: list[int] = []

    def add(self, request: Request) -> None:
        self.taken.append(request)
        if self._answer is not None:
            reason, invalid = self._answer.finish_reason, self._answer.invalid
            self._out.append(Output(request.key, finish_reason=reason, error=self._answer.error, invalid=invalid))

    def cancel(self, key: int) -> None:
        self.cancelled.append(key)
        self._out.append(Output(key, finish_reason=FinishReason.CANCELLED))

    def has_work(self) -> bool:
        return bool(self._out)

    def step(self) -> list[Output]:
        found = list(self._out)
        self._out.clear()
        return found

    def status(self) -> EngineStatus:
        return EngineStatus()

    def close(self) -> None:
        pass


@pytest.mark.parametrize(("sequences", "together"), [(1, 1), (64, MOST_TOGETHER)])
@pytest.mark.parametrize("batches", [False, True])
def test_one_long_prompt_alone_and_then_several_together(sequences: int, together: int, batches: bool) -> None:
    clock = Clock()
    engine = PacedEngine(sequences, sleep=clock.pause)
    assert warm_up(engine, sequences, batches=batches, clock=clock, pause=clock.pause) >= 2 * TOKENS
    sizes = [request.batch_size for request in engine.taken]
    assert len(engine.taken) == 1 + together
    assert sizes == ([1, *[together] * together] if batches else sizes)
    assert all((request.batch is not None) == batches for request in engine.taken)
    assert all(request.key < 0 for request in engine.taken)
    assert not engine.has_work()


def test_a_prompt_too_long_for_the_model_is_left_out() -> None:
    refused = Output(0, finish_reason=FinishReason.ERROR, error="too long", invalid=True)
    assert warm_up(Engine(refused), 2, batches=False, clock=Clock()) == 0


def test_an_engine_that_cannot_compute_fails_its_load() -> None:
    broken = Output(0, finish_reason=FinishReason.ERROR, error="out of memory")
    with pytest.raises(WarmUpError, match="the engine's warm-up failed: out of memory"):
        warm_up(Engine(broken), 2, batches=False)


def test_an_engine_that_does_not_end_is_ended_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    engine = Engine(None)
    seconds = warm_up(engine, 2, batches=False, clock=clock, pause=clock.pause)
    assert LIMIT_SECONDS < seconds < LIMIT_SECONDS + 5
    assert engine.cancelled == [-1]
    assert "the first requests will be slow" in capsys.readouterr().err
