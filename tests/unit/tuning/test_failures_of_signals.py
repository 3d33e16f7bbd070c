"""What went wrong with autoscalers that believed their figures, each with where it was reported."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmservice.tuning.decision import Outcome
from llmservice.tuning.measured import (
    MISSING,
    PodReport,
    Quantiles,
    RequestCounters,
    Steps,
    Validity,
)
from llmservice.tuning.settings import Bounds
from llmservice.tuning.state import State
from tests.unit.tuning.windows import Service, blind, frame, knobs, window

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("validity", [Validity.MISSING, Validity.STALE])
def test_missing_and_stale_are_not_zero(validity: Validity) -> None:
    """llm-d-autoscaling#385: stale series and a missing KV gauge were read as 0."""
    service = Service(knobs=knobs(6))
    service.serve(3000.0, 10)
    before = service.knobs
    for _ in range(100):
        decision = service.see(blind(service.knobs, validity))
        assert not decision.actions
        assert decision.outcome is Outcome.DISTRUST
    assert service.knobs == before
    assert decision.degraded


def test_a_source_that_fails_is_not_believed_for_what_it_told_before() -> None:
    """A Prometheus that died within the window: its samples are fresh still, and far too few requests are in them."""
    service = Service(knobs=knobs(6))
    service.serve(3000.0, 10)
    learnt = service.state.learnt
    decision = service.see(replace(window(300.0, service.knobs), fault="Prometheus does not answer"))
    assert (decision.outcome, decision.actions) == (Outcome.DISTRUST, ())
    assert decision.distrust == "Prometheus does not answer"
    assert service.state.learnt == learnt


def test_one_pod_without_figures_does_not_block_the_rest() -> None:
    """aibrix#617: one failed scrape blocked all scale-down."""
    service = Service(knobs=knobs(6))
    for _ in range(70):
        signals = window(300.0, service.knobs)
        lost = (replace(signals.pods[0], validity=Validity.MISSING), *signals.pods[1:])
        service.see(replace(signals, pods=lost if len(lost) > 2 else signals.pods))
    assert service.knobs.replicas <= 3


def test_half_of_the_pods_are_no_quorum() -> None:
    service = Service(knobs=knobs(4))
    service.serve(2000.0, 3)
    pods = tuple(PodReport(f"p{n}", Validity.FRESH if n < 2 else Validity.MISSING, 600.0) for n in range(4))
    decision = service.see(window(200.0, service.knobs, pods=pods))
    assert decision.outcome is Outcome.DISTRUST
    assert "p2 (missing)" in decision.distrust


def test_counters_by_request_under_bursts_are_not_trusted() -> None:
    """Under bursts of four times the rate such a fit gave 15 to 58 ms for an overhead of 10."""
    service = Service()
    for place in range(30):
        signals = window(300.0, service.knobs)
        counters = RequestCounters(9000.0, 1500.0 + 20 * (place % 3), 9000.0 * 0.018)
        counts = (1000.0, 8000.0) if place % 2 else (7000.0, 2000.0)
        decision = service.see(replace(signals, steps=(), request_counters=counters, arrival_counts=counts))
    assert decision.outcome is Outcome.DISTRUST
    assert "bursts" in decision.distrust


def test_counters_by_request_of_a_load_that_swings_are_trusted() -> None:
    """A rate that drifts by 4 % from scrape to scrape is no burst, however many requests come."""
    service = Service()
    for place in range(40):
        rate = 300.0 + 20.0 * (place % 20)
        size = 2.0 + 0.5 * (place % 20)
        counters = RequestCounters(30 * rate, 30 * rate / size, 30 * rate * (0.010 + 0.001 * (size + 1 - 1 / size)))
        counts = (14.7 * rate, 15.3 * rate)
        signals = replace(window(rate, service.knobs), steps=(), request_counters=counters, arrival_counts=counts)
        decision = service.see(signals)
    assert decision.outcome is not Outcome.DISTRUST


@pytest.mark.parametrize(("instances", "told"), [(1, "of one load"), (2, "instances cost each other")])
def test_counters_by_request_are_trusted_for_what_they_tell(instances: int, told: str) -> None:
    """One load is one batch size, and instances that share an accelerator slow each other down by nobody knows what."""
    service = Service(frame(bounds=Bounds(max_replicas=8, max_instances=2)), knobs(1, instances=instances))
    counters = RequestCounters(9000.0, 1500.0, 9000.0 * 0.018)
    for _ in range(10):
        decision = service.see(replace(window(300.0, service.knobs), steps=(), request_counters=counters))
    assert decision.outcome is Outcome.DISTRUST
    assert told in decision.distrust


def test_contradicting_signals_are_distrusted() -> None:
    """server#8463, #6494: metrics that cannot be true."""
    service = Service()
    service.serve(300.0, 3)
    signals = window(3000.0, service.knobs, contradictions=("pending is 0 while 40 requests wait in the gate",))
    decision = service.see(signals)
    assert not decision.trusted
    assert not decision.actions


def test_a_reset_of_every_figure_after_a_restart_starts_over_quietly() -> None:
    service = Service(knobs=knobs(3))
    service.serve(1500.0, 5)
    service.state = State.read("damaged")
    decision = service.serve(1500.0, 1)
    assert not [one for one in decision.actions if one.new < one.old]


def test_an_engine_without_steps_in_a_quiet_window_keeps_what_was_learnt() -> None:
    service = Service()
    service.serve(300.0, 5)
    signals = replace(window(300.0, service.knobs), steps=(), latency=Quantiles())
    assert service.see(signals).trusted


def test_steps_of_one_size_are_enough_to_begin() -> None:
    service = Service()
    signals = replace(window(5.0, service.knobs), steps=(Steps(1, 150.0, 1.65),))
    assert service.see(signals).outcome is Outcome.HOLD


def test_missing_latency_is_no_reason_to_act() -> None:
    service = Service(knobs=knobs(2))
    service.serve(800.0, 10)
    decision = service.serve(800.0, 1, latency=Quantiles(mean=MISSING))
    assert not decision.actions
