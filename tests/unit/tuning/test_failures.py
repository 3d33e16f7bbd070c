"""What went wrong with autoscalers of language models in the field, each with where it was reported."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmservice.api.operations import TuningMode
from llmservice.tuning.decision import Action, Knob, Outcome, Resource
from llmservice.tuning.guard import Guard, free_at, recorded
from llmservice.tuning.measured import (
    Measured,
    Quantiles,
    Replicas,
    UnderWay,
)
from llmservice.tuning.metric import Metric
from llmservice.tuning.settings import Bounds, Objective
from llmservice.tuning.state import State
from tests.unit.tuning.windows import Service, frame, knobs, window

pytestmark = pytest.mark.unit


def test_zero_traffic_for_three_windows_is_the_fewest_replicas() -> None:
    """ai-dynamo/dynamo#6985: NaN at zero traffic, seven replicas for ever."""
    service = Service(knobs=knobs(7))
    service.serve(3000.0, 4)
    assert service.knobs.replicas == 7
    service.serve(0.0, 2)
    assert service.knobs.replicas == 7
    decision = service.serve(0.0)
    assert service.knobs.replicas == 1
    assert "no request" in decision.reason.lower()


def test_zero_traffic_never_scales_to_none() -> None:
    """kedacore/keda#2314, llm-d#2492: with no replica nothing is measured, and nobody would come back."""
    service = Service(settings=frame(bounds=Bounds(min_replicas=0, max_replicas=8)), knobs=knobs(3))
    service.serve(0.0, 20)
    assert service.knobs.replicas == 1


def test_a_queue_that_is_empty_is_no_reason_to_remove_a_busy_worker() -> None:
    """temporal-worker-controller#547: queue depth is not load."""
    service = Service(knobs=knobs(3))
    service.serve(1800.0, 70)
    assert service.knobs.replicas == 3


def test_constant_load_does_not_flap_between_one_and_two() -> None:
    """dynamo#9294: a flat threshold for going down without looking at what is left."""
    for rate in (560.0, 600.0, 640.0, 680.0):
        service = Service(knobs=knobs(2))
        service.serve(rate, 50)
        replicas = [move for move in service.moves if move[0] == "replicas"]
        assert len(replicas) <= 1, (rate, replicas)


def test_an_objective_that_one_request_alone_misses_is_told_and_not_chased() -> None:
    """dynamo#11624: an infeasible objective forced extra replicas for ever."""
    service = Service(settings=frame(objectives=(Objective(Metric.LATENCY, 0.99, 0.005),)))
    decision = service.serve(200.0, 40)
    assert service.knobs.replicas == 1
    assert decision.limiting is Resource.OBJECTIVE
    assert "alone takes" in decision.infeasible[0].reason


def test_one_infeasible_objective_does_not_hide_the_others() -> None:
    objectives = (Objective(Metric.LATENCY, 0.5, 0.005), Objective(Metric.LATENCY, 0.99, 0.100))
    service = Service(settings=frame(objectives=objectives))
    decision = service.serve(1300.0, 4)
    assert service.knobs.replicas >= 2
    assert [one.objective.quantile for one in decision.infeasible] == [0.5]


def test_waiting_counts_in_the_tail() -> None:
    """dynamo#10528: the planner ignored queue time. At 800/s a batch takes 50 ms, and p99 is beyond 100."""
    assert Service().serve(800.0, 1).predictions[0].seconds > 0.100


def test_replicas_on_their_way_are_not_asked_for_twice() -> None:
    """llm-d-autoscaling#549: cascades of scale-ups while pods load."""
    service = Service()
    service.serve(1300.0, 2)
    asked = service.knobs.replicas
    assert asked >= 2
    service.serve(1300.0, 6, ready=1)
    assert service.knobs.replicas == asked


def test_no_load_never_scales_up() -> None:
    """llm-d-autoscaling#380, aibrix#593: seven pods at no load."""
    service = Service()
    service.serve(0.0, 20)
    service.serve(1.0, 30)
    assert [move for move in service.moves if move[0] == "replicas"] == []


@pytest.mark.parametrize("way", [UnderWay.ROLLOUT, UnderWay.DRAIN, UnderWay.USER_CHANGE])
def test_nothing_moves_while_pods_are_replaced(way: UnderWay) -> None:
    """kubernetes#90461, #84142: an HPA went to its maximum during a rolling update."""
    service = Service()
    service.serve(300.0, 3)
    for _ in range(10):
        decision = service.see(window(3000.0, service.knobs, under_way=(way,)))
        assert not decision.actions
    assert "Knobs stay" in decision.reason


def test_another_writer_of_replicas_keeps_them() -> None:
    """A HorizontalPodAutoscaler on the same target: the tuner only says what it would have."""
    service = Service()
    for _ in range(10):
        decision = service.see(window(1500.0, service.knobs, replicas_owner="HorizontalPodAutoscaler chat"))
    assert service.moves == []
    assert decision.proposed.replicas >= 2


def test_delay_changes_have_a_budget() -> None:
    """server#8117, #5757: reloads cost latency; kubernetes/enhancements#883: a budget for flapping."""
    guard = Guard()
    for at, (old, new) in ((0.0, (0.005, 0.010)), (3600.0, (0.010, 0.020))):
        assert free_at(guard, Knob.DELAY, 180.0) <= at
        guard = recorded(guard, (Action(Knob.DELAY, old, new, ""),), at)
    assert free_at(guard, Knob.DELAY, 180.0) == 86400.0
    assert free_at(guard, Knob.REPLICAS, 180.0) == 3660.0


def test_more_instances_without_gain_are_undone() -> None:
    """server#4037, #3443: more instances, worse latency. The second instance here doubles every step."""
    settings = frame(
        bounds=Bounds(max_replicas=1, max_instances=2), objectives=(Objective(Metric.LATENCY, 0.99, 0.085),)
    )
    service = Service(settings=settings, knobs=knobs(1, 0.0))
    for _ in range(120):
        signals = window(720.0, service.knobs)
        if service.knobs.engine_instances == 2:
            slower = tuple(replace(one, seconds=2.2 * one.seconds) for one in signals.steps)
            signals = replace(signals, steps=slower, latency=Quantiles(mean=Measured.of(0.3, samples=9000)))
        service.see(signals)
    instances = [move for move in service.moves if move[0] == "engineInstances"]
    assert instances[:2] in ([("engineInstances", 1, 2), ("engineInstances", 2, 1)], [])
    assert len(instances) <= 2


def test_a_saturated_cache_keeps_every_replica() -> None:
    """A veto over the model: llm-d's saturation analyzer."""
    service = Service(knobs=knobs(4))
    service.serve(200.0, 70, kv_usage=Measured.of(0.85))
    assert service.knobs.replicas == 4


def test_refused_requests_bring_replicas_at_once() -> None:
    service = Service()
    service.serve(300.0, 3)
    service.serve(650.0, 1, rejections=Measured.of(900.0), queue_depth=Measured.of(200.0))
    assert service.knobs.replicas >= 3


def test_without_any_model_a_saturated_service_still_grows() -> None:
    service = Service()
    service.see(replace(window(300.0, service.knobs), steps=(), queue_depth=Measured.of(900.0)))
    assert service.knobs.replicas == 2


def test_no_free_accelerator_is_told() -> None:
    service = Service()
    decision = service.serve(1500.0, 3, free_accelerators=Measured.of(0.0))
    assert service.moves == []
    assert "no accelerator is free" in decision.reason


def test_a_clock_that_goes_back_locks_nothing() -> None:
    service = Service()
    service.serve(1300.0, 4)
    service.now -= 10_000_000.0
    service.serve(2600.0, 4)
    assert service.knobs.replicas >= 4


def test_observe_moves_nothing_and_says_what_it_would_do() -> None:
    service = Service(settings=frame(mode=TuningMode.OBSERVE))
    decision = service.serve(1300.0, 5)
    assert service.moves == []
    assert service.knobs.replicas == 1
    assert decision.outcome is Outcome.OBSERVE
    assert decision.proposed.replicas >= 2
    assert decision.reason.startswith("Would act")


def test_off_is_off() -> None:
    service = Service(settings=frame(mode=TuningMode.OFF))
    assert service.serve(3000.0, 5).outcome is Outcome.OFF
    assert service.state == State()


def test_knobs_that_somebody_else_set_are_taken_as_they_are() -> None:
    service = Service(knobs=knobs(2))
    service.serve(500.0, 5)
    service.knobs = knobs(2, 0.015)
    service.serve(500.0, 3)
    assert service.state.last_good is not None
    assert service.state.last_good.delay == pytest.approx(0.015)


def test_pending_for_twenty_minutes_is_still_supply() -> None:
    service = Service()
    service.serve(1300.0, 2)
    asked = service.knobs.replicas
    for _ in range(40):
        signals = window(1300.0, service.knobs, ready=1)
        service.see(replace(signals, replicas=Replicas(ready=1, pending=(1200.0,) * (asked - 1))))
    assert service.knobs.replicas == asked
