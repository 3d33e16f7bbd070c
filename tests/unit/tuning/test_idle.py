"""Silence is a measurement: what it takes for replicas to go, and what it does not."""

from __future__ import annotations

import pytest

from llmservice.tuning.decision import Action, Knob
from llmservice.tuning.guard import Guard, recorded, went_and_came_back_until
from tests.unit.tuning.windows import Service, frame, knobs

pytestmark = pytest.mark.unit


def test_windows_without_requests_count_in_a_row() -> None:
    """One window of silence now and then is none of three in a row."""
    service = Service(frame(), knobs(4))
    service.serve(2500.0, 30)
    least = service.knobs.replicas
    for _ in range(6):
        service.serve(0.0, 2)
        service.serve(2500.0, 20)
        least = min(least, service.knobs.replicas)
    assert least >= 4
    assert service.state.guard.zero_windows == 0
    service.serve(0.0, 3)
    assert service.knobs.replicas == 1


def test_a_replica_that_came_back_does_not_go_at_the_next_silence() -> None:
    service = Service(frame(), knobs(4))
    service.serve(2500.0, 30)
    for _ in range(8):
        service.serve(0.0, 4)
        service.serve(2500.0, 12)
    downs = [move for move in service.moves if move[0] == Knob.REPLICAS.value and move[2] == 1]
    assert 0 < len(downs) <= 4, "after one silence in two at most, and not after each"


def test_until_when_what_came_back_stays() -> None:
    def after(*moves: tuple[float, int, int]) -> float:
        guard = Guard()
        for at, old, new in moves:
            guard = recorded(guard, (Action(Knob.REPLICAS, old, new, ""),), at)
        return went_and_came_back_until(guard, 180.0)

    assert after() == 0.0
    assert after((100.0, 1, 4)) == after((100.0, 4, 1)) == 0.0
    assert after((100.0, 4, 1), (400.0, 1, 4)) == 400.0 + 720.0
    assert after((100.0, 4, 1), (400.0, 1, 3), (430.0, 3, 4)) == 430.0 + 720.0
    assert after((100.0, 4, 1), (900.0, 1, 4)) == 0.0, "long after"


def test_another_owner_decides_about_replicas_in_silence_too() -> None:
    service = Service(frame(), knobs(4))
    service.serve(2500.0, 10)
    before = service.knobs.replicas
    service.serve(0.0, 6, replicas_owner="HorizontalPodAutoscaler chat")
    assert service.knobs.replicas == before
