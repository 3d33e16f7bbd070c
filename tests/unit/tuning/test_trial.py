"""A new setting is tried on one replica, then on all, and undone when it does something else than foretold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from llmservice.tuning.decision import Knob, Scope
from llmservice.tuning.measured import (
    CanaryReport,
    Measured,
    PodReport,
    Quantiles,
    Replicas,
    Signals,
    UnderWay,
    Validity,
)
from llmservice.tuning.settings import Bounds
from llmservice.tuning.trial import Stage, Trial, Verdict, canary_pod, likelihood_ratio, watch_all, watch_canary
from tests.unit.tuning.windows import Service, frame, knobs, window

pytestmark = pytest.mark.unit

TRIAL = Trial(stage=Stage.CANARY, knob=Knob.DELAY, old=(1, 0.0, 66), new=(1, 0.022, 66), at=0.0, windows=2)


def report(requests: float, slow: float, failures: float = 0.0) -> CanaryReport:
    return CanaryReport(requests, slow, failures, 4 * requests, 0.01 * 4 * requests, 0.0)


def test_evidence_is_for_the_canary_when_it_is_as_fast_and_against_it_when_twice_as_slow() -> None:
    assert likelihood_ratio(report(2000, 20)) < 0 < likelihood_ratio(report(2000, 45))


@pytest.mark.parametrize(
    ("told", "now", "verdict"),
    [
        (report(100, 1), 60.0, Verdict.GOING),
        (report(2000, 12), 60.0, Verdict.GOOD),
        (report(2000, 60), 60.0, Verdict.BAD),
        (report(2000, 12, failures=20), 60.0, Verdict.BAD),
        (report(300, 2), 1800.0, Verdict.GOOD),
        (None, 60.0, Verdict.GOING),
        (None, 1800.0, Verdict.BAD),
    ],
)
def test_verdicts_on_a_canary(told: CanaryReport | None, now: float, verdict: Verdict) -> None:
    assert watch_canary(TRIAL, told, now)[1] is verdict


def test_evidence_adds_up_over_windows() -> None:
    trial, verdict, _ = watch_canary(TRIAL, report(300, 2), 60.0)
    assert verdict is Verdict.GOING
    trial, verdict, told = watch_canary(trial, report(1700, 10), 90.0)
    assert verdict is Verdict.GOOD
    assert told.startswith("12 of 2000 requests")


def test_no_verdict_without_others_to_compare_with() -> None:
    alone = CanaryReport(2000, 0, 0, 0, 0, 0)
    assert watch_canary(TRIAL, alone, 60.0)[1] is Verdict.GOING
    assert watch_canary(TRIAL, alone, 1800.0)[1] is Verdict.BAD


def test_a_change_that_did_as_foretold_is_verified_after_two_windows() -> None:
    trial = TRIAL.model_copy(update={"stage": Stage.ALL, "windows": 0})
    trial, first, _ = watch_all(trial, 0.020, 0.021, 3000, failing=False, now=30.0)
    _, second, why = watch_all(trial, 0.020, 0.021, 3000, failing=False, now=60.0)
    assert (first, second) == (Verdict.GOING, Verdict.GOOD)
    assert "0.95 times as long" in why


def test_a_change_that_made_requests_slower_than_foretold_is_bad() -> None:
    trial = TRIAL.model_copy(update={"stage": Stage.ALL, "windows": 1})
    assert watch_all(trial, 0.040, 0.021, 3000, failing=False, now=60.0)[1] is Verdict.BAD
    assert watch_all(trial, 0.020, 0.021, 3000, failing=True, now=60.0)[1] is Verdict.BAD


def started() -> Service:
    """Four replicas, so that the first change of a delay goes to one of them."""
    settings = frame(canary=True, bounds=Bounds(min_replicas=4, max_replicas=8))
    service = Service(settings=settings, knobs=knobs(4))
    for _ in range(60):
        decision = service.serve(240.0)
        if decision.actions:
            return service
    raise AssertionError("no change was proposed")


def beside(service: Service, told: CanaryReport) -> Signals:
    return replace(window(240.0, service.knobs), canary=told)


def test_one_replica_of_four_tries_first_and_the_rest_follows() -> None:
    service = started()
    before = service.knobs
    (action,) = service.decisions[-1].actions
    assert (action.knob, action.scope) == (Knob.DELAY, Scope.CANARY)
    assert before.max_queue_delay.total_seconds() == 0.0
    decisions = [service.see(beside(service, report(3000, 10))) for _ in range(3)]
    promoted = [one for decision in decisions for one in decision.actions]
    assert [(one.knob, one.scope) for one in promoted] == [(Knob.DELAY, Scope.PROMOTED)]
    assert service.knobs.max_queue_delay.total_seconds() == pytest.approx(action.new)


def test_a_bad_canary_is_undone_alone_and_nothing_is_tried_for_an_hour() -> None:
    service = started()
    first = service.see(beside(service, report(3000, 300)))
    assert first.actions == (), "the change came somewhere within that window"
    decision = service.see(beside(service, report(3000, 300)))
    assert [(one.knob, one.scope) for one in decision.actions] == [(Knob.DELAY, Scope.CANARY)]
    assert decision.actions[0].new == 0.0
    count = len(service.moves)
    service.serve(240.0, 60)
    assert len(service.moves) == count


def test_without_three_replicas_there_is_no_canary_and_the_reason_says_so() -> None:
    service = Service(settings=frame(canary=True), knobs=knobs(1))
    service.serve(240.0, 60)
    actions = [one for decision in service.decisions for one in decision.actions]
    assert {one.scope for one in actions} == {Scope.ALL}
    reasons = [decision.reason for decision in service.decisions if decision.actions]
    assert reasons[0].endswith("; no replica tries it first: that takes 3, and one serves.")


def test_a_canary_and_its_promotion_are_one_change_of_the_budget() -> None:
    service = started()
    for _ in range(3):
        service.see(beside(service, report(3000, 10)))
    assert [(one.knob, one.old) for one in service.state.guard.changes] == [(Knob.DELAY, 0.0)]


def test_the_replica_that_has_served_longest_tries_first() -> None:
    pods = tuple(PodReport(f"chat-{age:.0f}", Validity.FRESH, age) for age in (30.0, 900.0, 60.0))
    signals = replace(window(240.0, knobs(4)), pods=(*pods, PodReport("chat-blind", Validity.STALE, 9000.0)))
    assert canary_pod(signals) == "chat-900"
    assert canary_pod(replace(signals, pods=())) == ""


@pytest.mark.parametrize(
    ("changes", "settings", "why", "banned"),
    [
        ({"pods": ()}, {}, "serves no more", True),
        ({"pods": (), "replicas": Replicas(ready=3, terminating=1)}, {}, "serves no more", False),
        ({"under_way": (UnderWay.ROLLOUT,)}, {}, "a rollout began", False),
        ({"under_way": (UnderWay.USER_CHANGE,)}, {}, "somebody changed the service", False),
        ({}, {"generation": 2}, "somebody changed the service", False),
    ],
)
def test_what_ends_a_canary_before_its_verdict(
    changes: dict[str, Any], settings: dict[str, Any], why: str, banned: bool
) -> None:
    service = started()
    service.settings = replace(service.settings, **settings)
    decision = service.see(replace(window(240.0, service.knobs), **changes))
    assert why in decision.reason
    assert [(one.scope, one.new) for one in decision.actions] == [(Scope.CANARY, 0.0)]
    assert service.state.trial is None
    assert bool(service.state.guard.banned) is banned


def test_a_change_that_a_replica_refuses_twice_is_undone_on_all() -> None:
    service = Service(knobs=knobs(1))
    while not service.moves:
        service.serve(240.0)
    once = service.serve(240.0, under_way=(UnderWay.LIVE_FAILURE,))
    assert once.actions == ()
    service.serve(240.0, under_way=(UnderWay.LIVE_FAILURE,))
    assert service.moves == [("maxQueueDelay", 0.0, 0.022), ("maxQueueDelay", 0.022, 0.0)]
    assert service.knobs.max_queue_delay.total_seconds() == 0.0


def test_a_drain_elsewhere_holds_up_a_canary_and_ends_nothing() -> None:
    service = started()
    service.serve(240.0, 5, under_way=(UnderWay.DRAIN,))
    assert service.state.trial is not None


def test_a_service_without_traffic_gives_no_replica_back_while_one_tries_something() -> None:
    service = started()
    service.settings = replace(service.settings, bounds=Bounds(max_replicas=8))
    service.serve(0.0, 6)
    assert service.knobs.replicas == 4


def test_a_change_on_all_that_hurts_is_undone() -> None:
    service = Service(knobs=knobs(1))
    while not service.moves:
        service.serve(240.0)
    slow = Quantiles(mean=Measured.of(0.5, samples=7000))
    service.serve(240.0, 4, latency=slow, running=Measured.of(120.0))
    assert service.moves[:2] == [("maxQueueDelay", 0.0, 0.022), ("maxQueueDelay", 0.022, 0.0)]
    assert service.state.guard.banned[0].delay == pytest.approx(0.022)
