"""A load that doubles at once: replicas and, until they serve, instances in place; what piled up judges no setting."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmservice.tuning.measured import Measured, Quantiles, Signals, Turn
from llmservice.tuning.model import candidate_of, model_of
from llmservice.tuning.optimise import options
from llmservice.tuning.performance import BatchPerformance
from llmservice.tuning.propose import hurried
from llmservice.tuning.settings import Bounds, Costs
from llmservice.tuning.trust import steady
from tests.unit.tuning.windows import Service, frame, knobs, window

pytestmark = pytest.mark.unit

TWO = Bounds(max_replicas=8, max_instances=2)


def settled(**changes: object) -> Service:
    service = Service(frame(bounds=TWO, **changes), knobs())
    service.serve(400.0, windows=10)
    return service


def test_a_panic_adds_instances_where_they_serve_and_replicas() -> None:
    service = settled()
    before = service.knobs
    decision = service.see(window(1500.0, before, queue_depth=Measured.of(20_000.0)))
    moved = {one.knob.value: (one.old, one.new) for one in decision.actions}
    assert moved["replicas"][1] > before.replicas
    assert moved["engineInstances"] == (before.engine_instances, 2)
    assert decision.knobs.engine_instances == 2


def test_a_panic_asks_for_all_replicas_in_its_first_window() -> None:
    """They were asked for one by one, as the queue grew: 30 s of a tail for each window that passed."""
    service = settled()
    rate, queue = 1400.0, 12_000.0
    decision = service.see(window(rate, service.knobs, queue_depth=Measured.of(queue)))
    asked = decision.knobs.replicas
    again = service.see(window(rate, decision.knobs, ready=1, queue_depth=Measured.of(queue)))
    assert asked >= 3
    assert again.knobs.replicas == asked, "the same panic asks for no more"


@pytest.mark.parametrize("cold_start", [60.0, 180.0, 3600.0])
def test_a_panic_counts_what_piles_up_until_replicas_serve_and_how_long_that_takes_is_no_matter(
    cold_start: float,
) -> None:
    """What one replica leaves of a load that comes back was asked for window by window, as it piled up."""

    def needed(signals: Signals) -> int:
        service = Service(frame(bounds=Bounds(max_replicas=64), costs=Costs(cold_start=cold_start)), knobs(8))
        service.serve(4000.0, 10)
        return int(service.see(signals).reason.split()[0])

    one = window(14_000.0, knobs(8))
    each = 14_000.0 / 728.0  # by `test_steady_load`'s capacity of one
    assert needed(one) == pytest.approx(each * (2 - 8 * 850.0 / 14_000.0), rel=0.1)
    assert needed(replace(one, queue_depth=Measured.of(60 * 7_280.0))) - needed(one) == 10, "within a minute"


def test_a_panic_of_few_replicas_may_ask_for_four_at_once() -> None:
    decision = settled().see(window(3000.0, knobs(), queue_depth=Measured.of(40_000.0)))
    assert decision.knobs.replicas == 5


def test_a_panic_is_sized_by_the_worst_part_of_its_window() -> None:
    """A load that came in the second half of a window is twice what the window's mean says."""
    late = settled().see(window(900.0, knobs(), queue_depth=Measured.of(9_000.0), arrival_counts=(6_000.0, 21_000.0)))
    even = settled().see(window(900.0, knobs(), queue_depth=Measured.of(9_000.0)))
    assert late.knobs.replicas > even.knobs.replicas


@pytest.mark.parametrize(("gain", "instances"), [(1.04, 1), (1.06, 2)])
def test_what_a_hurry_makes_of_a_setting_gains_a_twentieth_of_its_throughput(gain: float, instances: int) -> None:
    """Replicas are counted by it, too: it must be what is then done."""
    service = settled()
    modelled = model_of(service.state.learnt, service.settings, service.knobs).performance
    assert isinstance(modelled, BatchPerformance)
    performance = replace(modelled, gains=(1.0, gain))
    here = candidate_of(service.knobs)._replace(instances=1)
    found = options(performance, service.settings.objectives, TWO, 1500.0, 0.9)
    assert hurried(performance, found, here).candidate == here._replace(instances=instances)


def test_a_hurry_takes_no_instance_away() -> None:
    service = settled()
    modelled = model_of(service.state.learnt, service.settings, service.knobs).performance
    assert isinstance(modelled, BatchPerformance)
    performance = replace(modelled, gains=(1.0, 0.8))
    here = candidate_of(service.knobs)._replace(instances=2)
    found = options(performance, service.settings.objectives, TWO, 1500.0, 0.9)
    assert hurried(performance, found, here).candidate == here


def test_no_instance_is_rushed_that_the_bounds_forbid() -> None:
    service = Service(frame(), knobs())
    service.serve(400.0, windows=10)
    decision = service.see(window(1500.0, service.knobs, queue_depth=Measured.of(20_000.0)))
    assert [one.knob.value for one in decision.actions] == ["replicas"]


def test_the_window_in_which_a_small_queue_was_served_judges_no_setting() -> None:
    """Ten requests/s with sixty in the queue before: by what was inside at the end alone it looked steady."""
    one = window(10.0, knobs(2))
    late = replace(one, completions=Measured.of(12.0), latency=Quantiles(mean=Measured.of(3.0, samples=360)))
    assert steady(one)
    assert not steady(late)


def test_nothing_is_rushed_for_an_hour_after_something_was_undone() -> None:
    service = settled()
    guard = service.state.guard.model_copy(update={"frozen_until": service.now + 3600.0})
    service.state = service.state.model_copy(update={"guard": guard})
    decision = service.see(window(1500.0, service.knobs, queue_depth=Measured.of(20_000.0)))
    assert [one.knob.value for one in decision.actions] == ["replicas"]


def test_the_budget_of_all_services_holds_in_a_hurry_too() -> None:
    service = settled()
    turn = Turn(free_at=service.now + 600.0, reason="others come first")
    decision = service.see(window(1500.0, service.knobs, queue_depth=Measured.of(20_000.0), turn=turn))
    assert [one.knob.value for one in decision.actions] == ["replicas"]


def test_an_instance_added_in_a_hurry_is_not_taken_back_within_four_cooldowns_of_a_replica() -> None:
    service = settled()
    service.see(window(1500.0, service.knobs, queue_depth=Measured.of(20_000.0)))
    rushed = service.now
    for _ in range(60):
        service.serve(1500.0)
    undone = [one for one in service.moves if one[0] == "engineInstances" and one[2] < one[1]]
    if undone:
        backwards = [
            change.at
            for change in service.state.guard.changes
            if change.knob.value == "engineInstances" and change.new < change.old
        ]
        assert min(backwards) >= rushed + 720.0


def test_a_queue_that_was_served_in_this_window_says_nothing_of_the_setting() -> None:
    one = window(400.0, knobs())
    assert steady(one)
    late = replace(one, latency=Quantiles(mean=Measured.of(9.0, samples=12_000)))
    assert not steady(late)
    assert steady(replace(late, running=Measured.of(3600.0)))


def test_without_a_figure_of_what_runs_the_queue_alone_decides() -> None:
    one = window(400.0, knobs())
    late = replace(one, latency=Quantiles(mean=Measured.of(9.0, samples=12_000)), running=Measured.stale(1.0, age=99.0))
    assert steady(late)
    assert not steady(replace(late, queue_depth=Measured.of(5000.0)))
