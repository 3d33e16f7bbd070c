"""A replica that went is not wanted back soon: none goes while the load rises or by a short memory."""

from __future__ import annotations

import pytest

from llmservice.tuning.decision import Action, Knob
from llmservice.tuning.forecast import PEAK_SECONDS, Forecast, highest, is_rising, learn_rate
from llmservice.tuning.guard import Guard, agreed_seconds, recorded
from llmservice.tuning.replicas import FAR_FEWER_SECONDS, Need, Veto, decide_replicas
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


def test_forecasts_that_a_later_one_exceeds_are_not_kept() -> None:
    assert len(learnt([100.0 + place for place in range(60)]).recent) == 1
    assert len(learnt([100.0 - place for place in range(60)]).recent) == PEAK_SECONDS / WINDOW


def test_a_load_rises_until_it_falls() -> None:
    up = [100.0 * 1.02**place for place in range(30)]
    assert is_rising(learnt(up))
    assert not is_rising(learnt([*up, *(0.98 * one for one in reversed(up))]))
    assert not is_rising(learnt([100.0] * 30)), "a steady load lets go of what it does not need"


@pytest.mark.parametrize(
    ("veto", "goes"),
    [
        (Veto("more and more requests come", anew=True), False),
        (Veto("replicas are still starting"), True),
        (Veto(), True),
    ],
)
@pytest.mark.parametrize(
    ("lead", "enough", "wait"), [(180.0, 5, agreed_seconds(180.0)), (600.0, 2, FAR_FEWER_SECONDS)], ids=["few", "far"]
)
def test_a_rise_takes_back_what_agreed_so_far(veto: Veto, lead: float, enough: int, wait: float, *, goes: bool) -> None:
    """Of six, `enough` would do for as long as must agree; in the middle of that there was `veto` for one window."""
    guard, middle = Guard(), round(wait / WINDOW / 2)
    for place in range(round(wait / WINDOW) + 1):
        against = veto if place == middle else Veto()
        need = Need(enough, enough, enough)
        wanted = decide_replicas(guard, need, 6, Bounds(max_replicas=8), WINDOW * place, lead, against, None)
        guard = wanted.guard
    assert (wanted.replicas < 6) is goes


def test_no_replica_goes_while_more_and_more_requests_come() -> None:
    service = Service(knobs=knobs(4))
    for window in range(90):
        service.serve(200.0 * 1.005**window)
    assert service.knobs.replicas == 4
    assert "more and more requests come" in service.decisions[-1].reason
    service.serve(200.0 * 1.005**90, 60)
    assert service.knobs.replicas < 4


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
