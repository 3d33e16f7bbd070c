"""A load that hardly moves: as few replicas as hold it, with the setting that needs the fewest, found at once."""

from __future__ import annotations

import math

import pytest

from llmservice.tuning.decision import Action, Knob
from llmservice.tuning.forecast import LEAST_MISSES, Told
from llmservice.tuning.guard import Guard, recorded
from llmservice.tuning.model import candidate_of, model_of
from llmservice.tuning.propose import propose
from llmservice.tuning.replicas import BARELY_SECONDS, SPARE, Need, Pace, consolidates, decide_replicas
from llmservice.tuning.settings import Bounds, Costs
from llmservice.tuning.tail import LEAST_RESIDUALS, LEAST_SHARE, Correction, held_share
from tests.unit.tuning.windows import Service, frame, knobs, window

pytestmark = pytest.mark.unit

FEW = Bounds(max_replicas=8)
PACE = Pace(lead=180.0, agreed=1080.0)
BARELY_ENOUGH = Need(up=1, down=2, barely=1, sure=1)


def test_a_delay_waits_until_it_is_known_how_far_forecasts_miss() -> None:
    """Chosen before, it was the wrong one in a third of steady loads, and locked in for two hours."""
    service = Service(frame(bounds=Bounds(max_replicas=8, max_instances=2)), knobs(2, delay=0.005))
    for _ in range(200):
        decision = service.serve(480.0)
        misses = len(service.state.learnt.forecast.misses)
        if misses < LEAST_MISSES:
            moved = {one.knob for one in decision.actions}
            assert moved <= {Knob.REPLICAS}, "with the delay in force one instance is as good as two"
        if service.state.learnt.forecast.windows == 10:
            assert "how far forecasts miss" in decision.reason
    delays = [move for move in service.moves if move[0] == "maxQueueDelay"]
    assert len(delays) == 1


def test_an_instance_that_is_worth_it_with_the_delay_in_force_waits_for_no_other_delay() -> None:
    """It is there in seconds and costs no reload. It used to wait a quarter of an hour for the best delay."""
    service = Service(frame(bounds=Bounds(max_replicas=8, max_instances=2)), knobs(1, delay=0.005))
    service.serve(700.0, 12)
    assert len(service.state.learnt.forecast.misses) < LEAST_MISSES
    assert [move for move in service.moves if move[0] != "replicas"] == [("engineInstances", 1, 2)]


def test_what_the_present_setting_does_not_hold_waits_for_nothing() -> None:
    service = Service(frame(bounds=Bounds(max_replicas=1, max_instances=2)), knobs(1, delay=0.05))
    service.serve(760.0, 10)
    first = next(one for one in service.decisions if one.actions)
    assert first.proposed.max_queue_delay != knobs(delay=0.05).max_queue_delay
    assert len(service.state.learnt.forecast.misses) < LEAST_MISSES


@pytest.mark.parametrize(("barely_grown", "goes"), [(1, True), (2, False)])
def test_a_trend_with_nothing_to_spare_holds_no_load_that_is_long_steady(barely_grown: int, *, goes: bool) -> None:
    """The least noise leads a full replica beyond what is to spare, so that no load of one would ever go to one."""
    guard = Guard()
    need = Need(up=1, down=2, barely=1, sure=1, grown=2, barely_grown=barely_grown)
    for place in range(int(BARELY_SECONDS / 30.0) + 1):
        wanted = decide_replicas(guard, need, 2, FEW, 1000.0 + 30.0 * place, PACE, "", None)
        guard = wanted.guard
    assert (wanted.replicas < 2) is goes


def test_that_fewer_would_barely_do_is_known_until_replicas_change() -> None:
    """What refuses to let one go for a window must not begin the hour again."""
    guard, hour = Guard(), int(BARELY_SECONDS / 30.0)
    for place in range(hour + 5):
        wanted = decide_replicas(guard, BARELY_ENOUGH, 2, FEW, 1000.0 + 30.0 * place, PACE, "", None)
        guard = wanted.guard
        assert wanted.replicas == (2 if place < hour else 1)
    gone = recorded(guard, (Action(Knob.REPLICAS, 2, 1, ""),), 5000.0)
    assert (gone.barely_since, gone.fewer_since, gone.far_fewer_since) == (None, None, None)
    kept = recorded(guard, (Action(Knob.INSTANCES, 2, 1, ""),), 5000.0)
    assert kept.barely_since == guard.barely_since


def test_what_went_just_now_comes_back_only_where_the_forecast_alone_calls_for_it() -> None:
    """With the margin in it, every third way back of a week was one that nothing had called for."""
    guard = recorded(Guard(), (Action(Knob.REPLICAS, 4, 3, ""),), 1000.0)
    for place in range(8):
        wanted = decide_replicas(guard, Need(4, 4, 4, sure=3), 3, FEW, 1060.0 + 30.0 * place, PACE, "", None)
        guard = wanted.guard
        assert (wanted.replicas, "sure" in wanted.reason) == (3, True)
    assert decide_replicas(guard, Need(4, 4, 4, sure=4), 3, FEW, 1400.0, PACE, "", None).replicas == 4
    assert decide_replicas(guard, Need(3, 3, 3, sure=3, panic=4), 3, FEW, 1400.0, PACE, "", None).replicas == 4
    late = decide_replicas(guard, Need(4, 4, 4, sure=3), 3, FEW, 1000.0 + 4 * 180.0, PACE, "", None)
    assert late.replicas == 4, "four cooldowns later a margin is reason enough"


def test_after_an_hour_a_replica_goes_where_the_rest_holds_what_comes() -> None:
    assert consolidates(99.0, 100.0, 2, 1, long=True)
    assert not consolidates(101.0, 100.0, 2, 1, long=True)
    assert not consolidates(89.0, 100.0, 2, 1, long=False), "room is asked for where it was not that long"


def test_a_steady_load_near_a_replica_s_capacity_ends_on_one_and_stays() -> None:
    service = Service(knobs=knobs(2))
    service.serve(600.0, 400)
    assert service.knobs.replicas == 1
    assert [move for move in service.moves if move[0] == "replicas"] == [("replicas", 2, 1)]


@pytest.mark.parametrize(("miss", "share"), [(0.0, 0.9597), (0.04, 0.925), (0.2, LEAST_SHARE)])
def test_the_share_of_an_objective_that_is_held_is_what_predictions_miss_by(miss: float, share: float) -> None:
    residuals = (miss, -miss) * LEAST_RESIDUALS
    known = Correction(metric="latency", windows=40.0, residuals=residuals)
    assert held_share(known, simulated=True) == pytest.approx(share, abs=0.001)
    assert held_share(known, simulated=False) == LEAST_SHARE
    assert LEAST_SHARE <= held_share(known, simulated=True) < 1.0


def test_little_seen_is_no_reason_to_hold_more_of_an_objective() -> None:
    few = Correction(metric="latency", windows=5.0, residuals=(0.0,) * (LEAST_RESIDUALS - 1))
    assert held_share(few, simulated=True) == LEAST_SHARE


@pytest.mark.parametrize(("panic", "to"), [(0, 12), (40, 32)])
def test_no_step_is_larger_than_its_limit(panic: int, to: int) -> None:
    need = Need(40, 40, 40, sure=40, panic=panic)
    assert decide_replicas(Guard(), need, 8, Bounds(max_replicas=100), 1000.0, PACE, "", None).replicas == to


@pytest.mark.parametrize(("cold_start", "part"), [(180.0, 1.0), (432.0, 1080 / 2592), (600.0, 0.4), (1800.0, 0.24)])
def test_the_longer_the_highest_forecast_is_of_the_less_of_the_margin_comes_on_top(
    cold_start: float, part: float
) -> None:
    """A maximum has noise in it already: at ten minutes' cold start the whole margin cost a tenth of all hours."""
    service = Service(knobs=knobs(4))
    service.serve(400.0, 10)
    learnt, now = service.state.learnt, service.now
    misses = (1.4,) * (2 * LEAST_MISSES)  # waits of six cooldowns, or of 45 min at most
    peak = Told(due=now, rate=20_000.0)
    forecast = learnt.forecast.model_copy(update={"misses": misses, "recent": (peak,), "level": 1.0, "slope": 0.0})
    learnt = learnt.model_copy(update={"forecast": forecast})
    settings = frame(costs=Costs(cold_start=cold_start))
    performance = model_of(learnt, settings, service.knobs).performance
    assert performance is not None
    signals = window(400.0, service.knobs)
    found = propose(performance, learnt, Guard(), settings, signals, candidate_of(service.knobs), cold_start + 45.0)
    each = found.here.capacity
    assert found.need.down == math.ceil((1.0 + SPARE) * (1.0 + part * 0.4) * 20_000.0 / each)
