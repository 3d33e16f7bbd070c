"""The engine that stands for those that compute takes their decisions about levels."""

from __future__ import annotations

import pytest

from llmserving.engine import Request, SamplingParameters
from tests.serving.paced.paced_engine import PacedEngine

pytestmark = pytest.mark.unit


def request(key: int, level: int) -> Request:
    return Request(key, "hello", sampling=SamplingParameters(max_tokens=2), priority=level)


def stepped(engine: PacedEngine) -> list[int]:
    return sorted(output.key for output in engine.step())


def test_a_higher_level_takes_the_seat_of_the_last_of_a_lower_one_which_goes_on_later() -> None:
    engine = PacedEngine(2, sleep=lambda _: None)
    for key in (1, 2):
        engine.add(request(key, level=2))
    assert stepped(engine) == [1, 2]

    engine.add(request(3, level=2))
    engine.add(request(4, level=1))

    assert stepped(engine) == [1, 4]
    assert stepped(engine) == [2, 4]  # 1 has ended, and 2 goes on before 3 begins
    assert stepped(engine) == [3]


def test_nobody_gives_way_to_an_equal() -> None:
    engine = PacedEngine(1, sleep=lambda _: None)
    for key in (1, 2, 3):
        engine.add(request(key, level=1))
    assert [stepped(engine) for _ in range(6)] == [[1], [1], [2], [2], [3], [3]]
