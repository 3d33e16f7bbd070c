"""Bursts that no scrape counts are felt by the objectives they miss, and answered by replicas that are there before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmservice.tuning.bursts_felt import KEPT_FOR, TWICE_WITHIN, BurstsFelt, feel
from llmservice.tuning.measured import Measured, Quantiles, Signals, UnderWay
from llmservice.tuning.metric import Metric
from llmservice.tuning.settings import Bounds, Objective
from llmservice.tuning.trust import steady
from tests.unit.tuning.windows import Service, frame, knobs, window

pytestmark = pytest.mark.unit

LARGE = frame(bounds=Bounds(max_replicas=64))
OBJECTIVES = (Objective(Metric.LATENCY, 0.99, 0.100),)


def missed(rate: float = 300.0, p99: float = 0.125, replicas: int = 2, samples: int = 5000) -> Signals:
    one = window(rate, knobs(replicas))
    return replace(one, latency=replace(one.latency, p99=Measured.of(p99, samples=samples)))


def after(*windows: Signals, every: float = 60.0) -> BurstsFelt:
    memory = BurstsFelt()
    for place, one in enumerate(windows):
        memory = feel(memory, one, LARGE, OBJECTIVES, 700.0, 1000.0 + every * place)
    return memory


def test_two_misses_at_little_load_keep_a_quarter_more_for_an_hour() -> None:
    assert after(missed()).floor_at(1000.0) == 0, "once is chance"
    memory = after(missed(), missed())
    assert memory.floor_at(1060.0) == 3
    assert memory.floor_at(1060.0 + KEPT_FOR) == 0
    assert after(missed(replicas=8), missed(replicas=8)).floor_at(1060.0) == 10


@pytest.mark.parametrize(
    "other",
    [
        missed(rate=1300.0),
        missed(p99=0.110),
        missed(samples=40),
        replace(missed(), under_way=(UnderWay.ROLLOUT,)),
        replace(missed(), latency=Quantiles()),
        window(300.0, knobs(2), ready=1, latency=missed().latency),
    ],
    ids=["a full replica", "within a bucket", "few requests", "a rollout", "not measured", "a replica starts"],
)
def test_what_is_no_burst(other: Signals) -> None:
    assert after(missed(), other).floor_at(1060.0) == 0


@pytest.mark.parametrize(("p99", "floor"), [(0.125, 10), (0.160, 13), (0.200, 16), (0.900, 16)])
def test_what_the_objective_was_missed_by_is_what_is_kept_up_to_as_many_again(p99: float, floor: int) -> None:
    """A replica more at a time took bursts that needed three times as many an hour and a half to find enough."""
    assert after(missed(replicas=8), missed(replicas=8, p99=p99)).floor_at(1060.0) == floor


def test_a_burst_begins_every_wait_for_fewer_replicas_anew() -> None:
    """Fewer have not been enough where those that there are were too few. None is felt twice here."""
    service, calm = Service(knobs=knobs(8)), Service(knobs=knobs(8))
    for place in range(80):
        one = window(300.0, service.knobs)
        late = place % 5 == 4
        service.state = service.state.model_copy(update={"bursts_felt": BurstsFelt()})
        service.see(replace(one, latency=replace(one.latency, p99=Measured.of(0.2, samples=3000))) if late else one)
        calm.serve(300.0)
    assert service.knobs.replicas == 8
    assert calm.knobs.replicas < 8
    service.serve(300.0, 80)
    assert service.knobs.replicas < 8


def test_replicas_that_do_not_help_are_given_back_and_no_more_are_added_for_a_day() -> None:
    """Requests that are slow by themselves, or one slow replica, looked like bursts for ever: up to maxReplicas."""
    service = Service(LARGE, knobs(1))
    most, day = 0, int(86400 / 30)
    for _ in range(day):
        one = window(100.0, service.knobs)
        service.see(replace(one, latency=replace(one.latency, p99=Measured.of(0.2, samples=3000))))
        most = max(most, service.knobs.replicas)
    assert most == 4, "twice as many, twice"
    assert service.knobs.replicas == 1
    assert sum(new > old for knob, old, new in service.moves if knob == "replicas") == 2


def test_bursts_that_turn_out_to_need_what_was_given_back_get_it_again() -> None:
    """Two larger ones by chance looked as if replicas did not help; with fewer of them it is plain that they did."""
    service = Service(LARGE, knobs(1))

    def burst(p99: float) -> None:
        one = window(100.0, service.knobs)
        service.see(replace(one, latency=replace(one.latency, p99=Measured.of(p99, samples=3000))))

    for p99 in (0.2, 0.2, 0.3, 0.4):  # felt, 1 -> 2, 2 -> 4, given up
        burst(p99)
    assert service.knobs.replicas == 4
    service.serve(100.0, 240)
    assert service.knobs.replicas == 1
    for p99 in (0.5, 0.5):
        burst(p99)
    assert service.knobs.replicas == 1, "no worse than with four"
    for p99 in (0.7, 0.7):
        burst(p99)
    assert service.knobs.replicas == 2


def test_no_more_replicas_are_kept_than_there_may_be() -> None:
    """The status said that 64 were needed of 32."""
    few = Service(frame(bounds=Bounds(max_replicas=3)), knobs(2))
    for _ in range(6):
        one = window(100.0, few.knobs)
        few.see(replace(one, latency=replace(one.latency, p99=Measured.of(0.2, samples=3000))))
    assert few.knobs.replicas == few.state.bursts_felt.floor == 3
    assert few.state.bursts_felt.futile_until > few.now, "a third does not help either"


def test_a_quantile_that_is_no_number_is_no_miss() -> None:
    assert after(missed(), missed(p99=float("nan")), missed(p99=float("inf"))).floor_at(1060.0) == 0


def test_replicas_that_help_are_added_until_the_objective_holds() -> None:
    service = Service(LARGE, knobs(1))
    for _ in range(120):
        one = window(100.0, service.knobs)
        late = 0.8 / service.knobs.replicas
        service.see(replace(one, latency=replace(one.latency, p99=Measured.of(late, samples=3000))))
    assert service.knobs.replicas == 8


def test_two_misses_far_apart_are_chance() -> None:
    assert after(missed(), missed(), every=TWICE_WITHIN).floor_at(1000.0 + TWICE_WITHIN) == 0


def test_a_service_that_feels_bursts_gets_a_replica_and_keeps_it() -> None:
    service = Service()
    service.serve(100.0, 6)
    for _ in range(2):
        one = window(100.0, service.knobs)
        service.see(replace(one, latency=replace(one.latency, p99=Measured.of(0.2, samples=3000))))
    assert service.knobs.replicas == 2
    service.serve(100.0, int(KEPT_FOR / 30.0) - 10)
    assert service.knobs.replicas == 2
    service.serve(100.0, 90)
    assert service.knobs.replicas == 1


def felt(replicas: int = 2) -> Service:
    """A service that has just got the replicas that bursts are to find."""
    service = Service()
    service.serve(100.0, 6)
    for _ in range(2):
        one = window(100.0, service.knobs)
        service.see(replace(one, latency=replace(one.latency, p99=Measured.of(0.2, samples=3000))))
    assert service.knobs.replicas == replicas
    return service


def test_a_decision_says_that_bursts_are_why_replicas_are_kept() -> None:
    service = felt()
    asked, kept = service.decisions[-1], service.serve(100.0)
    for decision in (asked, kept):
        assert "2 replicas are kept for bursts" in decision.reason
        assert dict(decision.inputs)["keptForBursts"] == 2
    idle = service.serve(0.0, 4)
    assert "2 replicas are kept for bursts" in idle.reason
    assert service.knobs.replicas == 2


@pytest.mark.parametrize(("rate", "replicas"), [(700.0, 2), (1400.0, 3)])
def test_bursts_are_no_reason_where_the_load_needs_as_many_or_more(rate: float, replicas: int) -> None:
    service = felt()
    busy = service.serve(rate, 3)
    assert service.knobs.replicas == replicas
    assert "bursts" not in busy.reason
    assert dict(busy.inputs)["keptForBursts"] == 2


def test_a_burst_that_was_served_within_its_window_is_felt() -> None:
    """Its queue is gone at the window's end, and its requests took longer than what is inside explains."""
    burst = missed()
    burst = replace(burst, latency=replace(burst.latency, mean=Measured.of(0.5, samples=5000)))
    assert not steady(burst)
    assert after(burst, burst).floor_at(1060.0) == 3


def test_bursts_of_a_clock_that_was_set_back_keep_nothing() -> None:
    service = Service(frame(), knobs(2))
    ahead = service.now + 365 * 86400.0
    felt = BurstsFelt(missed=(ahead - 60.0, ahead), floor=4)
    service.state = service.state.model_copy(update={"bursts_felt": felt})
    service.serve(300.0)
    assert service.state.bursts_felt.missed == ()
    assert service.state.bursts_felt.floor_at(service.now) == 0
