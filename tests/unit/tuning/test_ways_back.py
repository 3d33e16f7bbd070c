"""A replica that went is not wanted back soon: none goes while the load rises or by a short memory."""

from __future__ import annotations

from math import pi, sin

import pytest

from llmservice.tuning.decision import Action, Knob
from llmservice.tuning.forecast import (
    KEPT,
    LEAST_MISSES,
    MOST_MARGIN,
    PEAK_SECONDS,
    Forecast,
    doubt,
    highest,
    learn_rate,
)
from llmservice.tuning.guard import Guard, agreed_seconds, recorded
from llmservice.tuning.replicas import FAR_FEWER_SECONDS, PAUSE_SECONDS, Need, Pace, decide_replicas
from llmservice.tuning.settings import Bounds, Costs
from tests.unit.tuning.windows import WINDOW, Service, frame, knobs

pytestmark = pytest.mark.unit


def learnt(rates: list[float], reach: float = PEAK_SECONDS) -> Forecast:
    memory = Forecast()
    for place, rate in enumerate(rates, start=1):
        memory = learn_rate(memory, rate, WINDOW * place, 180.0, reach)
    return memory


def test_the_highest_forecast_reaches_as_far_back_as_is_asked() -> None:
    hour = [500.0] * 10 + [100.0] * 60
    assert highest(learnt(hour)) == pytest.approx(100.0, rel=0.02)
    assert highest(learnt(hour, reach=2400.0)) >= 500.0


def test_windows_far_shorter_than_a_cold_start_drop_no_forecast_before_it_is_due() -> None:
    memory = Forecast()
    for place in range(600):
        memory = learn_rate(memory, 100.0, 10.0 * place, 1800.0, 4500.0)
    assert len(memory.misses) >= LEAST_MISSES
    assert len(memory.told) <= KEPT


def test_the_highest_forecast_of_many_short_windows_is_still_the_first() -> None:
    memory = Forecast()
    for place in range(400):
        memory = learn_rate(memory, 1000.0 - place, 10.0 * place, 180.0, 4500.0)
    assert highest(memory) == pytest.approx(1000.0)
    assert len(memory.recent) <= KEPT


def test_forecasts_that_a_later_one_exceeds_are_not_kept() -> None:
    assert len(learnt([100.0 + place for place in range(60)]).recent) == 1
    assert len(learnt([100.0 - place for place in range(60)]).recent) == PEAK_SECONDS / WINDOW


WAITS = pytest.mark.parametrize(("enough", "wait"), [(5, 1500.0), (2, FAR_FEWER_SECONDS)], ids=["few", "far"])
PACE = Pace(lead=600.0, agreed=1500.0)


@WAITS
@pytest.mark.parametrize(("grown", "goes"), [(6, False), (5, True)])
def test_a_rise_into_what_would_go_takes_back_what_agreed_so_far(
    enough: int, wait: float, grown: int, *, goes: bool
) -> None:
    """Of six, `enough` would do for as long as must agree; in the middle of that the trend led to `grown`."""
    guard, middle = Guard(), round(wait / WINDOW / 2)
    for place in range(round(wait / WINDOW) + 1):
        need = Need(enough, enough, enough, grown=grown if place == middle else enough)
        wanted = decide_replicas(guard, need, 6, Bounds(max_replicas=8), WINDOW * place, PACE, "", None)
        guard = wanted.guard
    assert (wanted.replicas < 6) is goes


@WAITS
@pytest.mark.parametrize(("pause", "goes"), [(PAUSE_SECONDS, True), (PAUSE_SECONDS + WINDOW, False)])
def test_what_nobody_saw_was_not_enough(enough: int, wait: float, pause: float, *, goes: bool) -> None:
    """One window, a pause in which somebody else had the word, and the rest of the wait."""
    guard, need = Guard(), Need(enough, enough, enough, grown=enough)
    for now in (0.0, *(pause + WINDOW * place for place in range(round((wait - pause) / WINDOW) + 1))):
        wanted = decide_replicas(guard, need, 6, Bounds(max_replicas=8), now, PACE, "", None)
        guard = wanted.guard
    assert (wanted.replicas < 6) is goes


def test_no_replica_goes_that_a_rise_will_want() -> None:
    """One of two would do for 500 requests/s, and for what comes half an hour later it would not."""
    steady, rising = Service(knobs=knobs(2)), Service(knobs=knobs(2))
    steady.serve(500.0, 60)
    assert steady.knobs.replicas == 1
    for place in range(60):
        rising.serve(500.0 * 1.01**place)
        assert rising.knobs.replicas >= 2
    assert any("more and more requests come" in one.reason for one in rising.decisions)


def test_a_rise_that_few_hold_keeps_no_crowd() -> None:
    service = Service(frame(bounds=Bounds(max_replicas=40)), knobs(20))
    for place in range(60):
        service.serve(200.0 * 1.01**place)
    assert service.knobs.replicas < 10


def test_a_wave_far_below_what_there_is_keeps_no_crowd() -> None:
    """A fifth up and down every ten minutes: each upward half of it is a rise."""
    service = Service(frame(bounds=Bounds(max_replicas=40)), knobs(20))
    for place in range(150):
        service.serve(1300.0 * (1.0 + 0.2 * sin(2.0 * pi * place * WINDOW / 600.0)))
    assert service.knobs.replicas <= 5


@pytest.mark.parametrize(("miss", "cooldowns"), [(1.0, 2.5), (1.1, 2.5), (1.2, 5.0), (1.5, 6.0), (2.0, 6.0)])
def test_the_less_is_foreseen_the_longer_fewer_must_have_been_enough(miss: float, cooldowns: float) -> None:
    assert agreed_seconds(450.0, miss) == pytest.approx(cooldowns * 450.0)
    assert agreed_seconds(30.0, miss) == pytest.approx(cooldowns * 180.0), "a window needs some time to tell anything"


@pytest.mark.parametrize(("lead", "minutes"), [(300.0, 30), (600.0, 45), (1080.0, 45), (1800.0, 75)])
def test_the_longest_wait_is_no_longer_than_the_course_of_a_day_allows(lead: float, minutes: float) -> None:
    assert agreed_seconds(lead, 2.0) == pytest.approx(60.0 * minutes)
    assert agreed_seconds(lead, 1.0) == pytest.approx(2.5 * lead)


def test_where_nothing_is_known_of_forecasts_the_wait_is_longest() -> None:
    assert doubt(Forecast()) == doubt(Forecast(misses=(1.0,) * (LEAST_MISSES - 1))) == MOST_MARGIN
    assert doubt(Forecast(misses=(1.05,) * LEAST_MISSES)) == 1.05


def test_the_highest_forecast_is_of_as_long_as_must_agree() -> None:
    service = Service(frame(costs=Costs(cold_start=600.0)), knobs(3))
    service.serve(1800.0, 60)
    most = service.knobs.replicas
    service.serve(500.0, round((agreed_seconds(600.0, 1.0) - WINDOW) / WINDOW))
    assert highest(service.state.learnt.forecast) == pytest.approx(1800.0)
    assert service.knobs.replicas == most
    service.serve(500.0, round(2.0 * agreed_seconds(600.0, 2.0) / WINDOW))
    assert service.knobs.replicas < most


def gone(rate: float) -> Service:
    """Two replicas with some windows of `rate` behind them, of which a third went just now."""
    service = Service(frame(costs=Costs(cold_start=600.0)), knobs(2))
    service.serve(rate, 60)
    moved = recorded(service.state.guard, (Action(Knob.REPLICAS, 3, 2, ""),), service.now)
    service.state = service.state.model_copy(update={"guard": moved})
    return service


def test_a_forecast_alone_brings_nothing_back() -> None:
    """The rate rises so steeply that in ten minutes three were needed; what comes is held by two, and it stops."""
    service = gone(1000.0)
    for window in range(15):
        service.serve(1000.0 + 30.0 * window)
    assert service.state.learnt.forecast.slope * 600.0 > 200.0
    assert service.knobs.replicas == 2
    assert "some went just now" in service.decisions[-1].reason


def test_what_comes_brings_back_what_went_just_now() -> None:
    service = gone(1000.0)
    for window in range(30):
        service.serve(1000.0 + 25.0 * window, ready=2)
    assert service.knobs.replicas > 2
