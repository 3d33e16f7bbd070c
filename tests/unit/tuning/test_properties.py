"""What holds whatever comes: bounds, one knob at a time, no flapping, nothing on missing figures."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmservice.tuning.decision import Knob
from llmservice.tuning.measured import MISSING, Measured, UnderWay, Validity
from llmservice.tuning.settings import Bounds
from llmservice.tuning.state import State
from tests.unit.tuning.windows import Service, blind, frame, knobs, window

pytestmark = pytest.mark.unit
FEW = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)

RATES = st.lists(st.sampled_from([0.0, 20.0, 300.0, 640.0, 1500.0, 4000.0, 20000.0]), min_size=3, max_size=16)
ODD: list[dict[str, Any]] = [
    {},
    {},
    {"arrivals": MISSING},
    {"arrivals": Measured.stale(5000.0, age=120.0)},
    {"queue_depth": Measured.of(3000.0)},
    {"rejections": Measured.of(50.0)},
    {"under_way": (UnderWay.ROLLOUT,)},
    {"free_accelerators": Measured.of(0.0)},
    {"steps": ()},
]


@given(rates=RATES, odd=st.lists(st.sampled_from(ODD), min_size=3, max_size=16), most=st.integers(1, 9))
@FEW
def test_knobs_stay_within_bounds_and_replicas_within_steps(
    rates: list[float], odd: list[dict[str, Any]], most: int
) -> None:
    bounds = Bounds(max_delay=0.015, max_instances=2, min_replicas=1, max_replicas=most)
    service = Service(settings=frame(bounds=bounds))
    for rate, strange in zip(rates, odd, strict=False):
        service.see(window(rate, service.knobs, **strange))
        after = service.knobs
        assert 1 <= after.replicas <= most
        assert 1 <= after.engine_instances <= 2
        assert 0.0 <= after.max_queue_delay.total_seconds() <= 0.015


@given(rates=RATES, validity=st.sampled_from([Validity.MISSING, Validity.STALE]), windows=st.integers(1, 30))
@FEW
def test_nothing_is_done_on_figures_that_are_not_there(rates: list[float], validity: Validity, windows: int) -> None:
    service = Service(knobs=knobs(4))
    for rate in rates:
        service.serve(rate)
    before = service.knobs
    for _ in range(windows):
        decision = service.see(blind(service.knobs, validity))
        assert decision.actions == ()
        assert not decision.trusted
    assert service.knobs == before


@given(rates=RATES)
@FEW
def test_one_kind_of_knob_moves_in_a_window_and_only_additions_follow_at_once(rates: list[float]) -> None:
    service = Service(settings=frame(bounds=Bounds(max_instances=2, max_replicas=9)))
    moved_at: dict[Knob, int] = {}
    for place, rate in enumerate(rates):
        decision = service.serve(rate)
        kinds = {one.knob for one in decision.actions}
        hurried = any(one.knob is Knob.REPLICAS and one.new > one.old for one in decision.actions)
        assert kinds <= {Knob.REPLICAS, Knob.INSTANCES} if hurried else len(kinds) <= 1
        for one in decision.actions:
            added = one.knob is Knob.REPLICAS and one.new > one.old
            others = [at for knob, at in moved_at.items() if knob is not one.knob]
            undone = decision.reason.startswith("The change")
            idle = "No request" in decision.reason
            if others and not added and not undone and not idle and not hurried:
                assert place - max(others) >= 2
            moved_at[one.knob] = place


@pytest.mark.parametrize("rate", [20.0, 300.0, 560.0, 640.0, 720.0, 1500.0, 3900.0])
def test_a_constant_load_settles_and_stays(rate: float) -> None:
    service = Service(knobs=knobs(3))
    service.serve(rate, 25)
    settled = len(service.moves)
    service.serve(rate, 25)
    later = [move for move in service.moves[settled:] if move[0] == "replicas"]
    assert all(new < old for _, old, new in later), later


def test_more_load_never_means_fewer_replicas() -> None:
    needed = []
    for rate in (50.0, 300.0, 600.0, 700.0, 900.0, 1300.0, 2000.0, 3000.0, 4500.0):
        service = Service()
        needed.append(service.serve(rate, 6).proposed.replicas)
    assert needed == sorted(needed)


@given(rates=RATES)
@FEW
def test_the_memory_survives_json_and_stays_small(rates: list[float]) -> None:
    service = Service()
    for rate in rates:
        service.serve(rate)
        text = json.dumps(service.state.dump())
        assert State.read(json.loads(text)) == service.state
    assert len(text) < 100_000


def test_the_memory_is_bounded_after_a_day() -> None:
    """JSON of a ConfigMap has a megabyte; every ring and bin is at its bound here."""
    service = Service()
    service.serve(300.0, 6)
    learnt = service.state.learnt
    forecast = learnt.forecast.model_copy(update={"misses": (1.234567,) * 5000})
    grown = service.state.model_copy(update={"learnt": learnt.model_copy(update={"forecast": forecast})})
    assert len(json.dumps(State.read(grown.dump()).dump())) < 100_000


def test_the_same_window_gives_the_same_decision() -> None:
    first, second = Service(), Service()
    for rate in (300.0, 800.0, 1500.0, 0.0):
        assert first.serve(rate) == second.serve(rate)
    assert first.state == second.state


def test_a_reason_names_its_figures() -> None:
    service = Service()
    service.serve(300.0, 2)
    decision = service.serve(1500.0)
    assert decision.actions
    told = dict(decision.inputs)
    assert told["arrivals"] == 1500.0
    assert told["capacityPerReplica"] > 0
    assert decision.headroom is not None
    assert decision.headroom < 0
    kept = service.state.decisions[-1]
    assert kept.changes[0].startswith("replicas 1 -> ")


def test_pods_that_are_all_stale_are_named() -> None:
    decision = Service(knobs=knobs(2)).see(blind(knobs(2), Validity.STALE))
    assert "chat-0 (stale)" in decision.distrust


def test_live_change_under_way_still_lets_replicas_come() -> None:
    service = Service()
    service.serve(300.0, 2)
    signals = replace(window(1500.0, service.knobs), under_way=(UnderWay.LIVE_CHANGE,))
    assert [one.knob for one in service.see(signals).actions] == [Knob.REPLICAS]
