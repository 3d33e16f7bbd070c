"""The tuner's memory survives JSON, and nothing stored can break it."""

from __future__ import annotations

import json

import pytest

from llmservice.tuning.state import DECISIONS_KEPT, PastDecision, State

pytestmark = pytest.mark.unit


def test_state_survives_json() -> None:
    state = State(decisions=(PastDecision(at=1.0, outcome="Hold", reason="r", inputs=(("arrivals", 2.0),)),))
    assert State.read(json.loads(json.dumps(state.dump()))) == state


@pytest.mark.parametrize(
    "stored", [None, "nonsense", 3, [], {"version": 99}, {"decisions": {"a": 1}}, {"version": "x"}]
)
def test_unreadable_state_is_a_fresh_one(stored: object) -> None:
    assert State.read(stored) == State()


def test_only_the_last_decisions_are_kept() -> None:
    many = [{"at": float(at), "outcome": "Hold", "reason": ""} for at in range(40)]
    assert [past.at for past in State.read({"decisions": many}).decisions] == list(range(40 - DECISIONS_KEPT, 40))


@pytest.mark.parametrize(
    "learnt",
    [
        {"used": {"lines": []}},
        {"used": {}},
        {"forecast": {"level": -1.0}},
        {"forecast": {"level": 1e12}},
        {"forecast": {"told": [{"due": 1.0, "rate": -1.0}]}},
        {"forecast": {"misses": [-1.0]}},
        {"steps_per_batch": 1e300},
        {"steps_per_batch": 0.0},
    ],
)
def test_what_nobody_could_have_learnt_is_forgotten(learnt: object) -> None:
    assert State.read({"learnt": learnt}) == State()


@pytest.mark.parametrize("floor", [-1, 10**9])
def test_a_floor_that_no_service_has_is_forgotten(floor: int) -> None:
    assert State.read({"bursts_felt": {"missed": [1.0], "floor": floor}}) == State()
