"""A new revision replaces the old one without the service going down."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmservice.api.operations import RolloutStrategy
from llmservice.changes.rollout import RevisionState, next_step

pytestmark = pytest.mark.unit
AUTO, SURGE, DRAIN = RolloutStrategy.AUTO, RolloutStrategy.SURGE, RolloutStrategy.DRAIN


def ready(count: int) -> RevisionState:
    return RevisionState(count, count, count)


def test_the_first_revision_starts_whole() -> None:
    step = next_step("new", 3, {}, AUTO)
    assert (dict(step.replicas), step.finished, step.why) == ({"new": 3}, (), "")


def test_scaling_touches_only_the_count() -> None:
    assert dict(next_step("new", 5, {"new": ready(3)}, AUTO).replicas) == {"new": 5}


def test_zero_replicas_leave_nothing() -> None:
    assert dict(next_step("new", 0, {"new": ready(1), "old": ready(2)}, AUTO).replicas) == {"new": 0, "old": 0}


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        (RevisionState(0, 0, 0), ready(3), {"new": 1, "old": 3}),
        (RevisionState(1, 1, 0), ready(3), {"new": 1, "old": 3}),
        (ready(1), ready(3), {"new": 2, "old": 2}),
        (RevisionState(2, 2, 1), ready(2), {"new": 2, "old": 2}),
        (ready(2), ready(2), {"new": 3, "old": 1}),
        (ready(3), ready(1), {"new": 3, "old": 0}),
    ],
)
def test_surge_adds_one_and_takes_an_old_one_for_each_that_is_ready(
    new: RevisionState, old: RevisionState, expected: dict[str, int]
) -> None:
    assert dict(next_step("new", 3, {"new": new, "old": old}, AUTO).replicas) == expected


def test_auto_drains_one_when_no_accelerator_is_free() -> None:
    states = {"new": RevisionState(1, 1, 0, waiting=1), "old": ready(3)}
    step = next_step("new", 3, states, AUTO)
    assert dict(step.replicas) == {"new": 1, "old": 2}
    assert "one old replica leaves before each new one" in step.why


def test_auto_takes_no_second_one_while_the_first_still_leaves() -> None:
    states = {"new": RevisionState(1, 1, 0, waiting=1), "old": RevisionState(2, 3, 3)}
    assert dict(next_step("new", 3, states, AUTO).replicas) == {"new": 1, "old": 2}


def test_auto_keeps_the_only_replica_and_says_how_to_go_on() -> None:
    states = {"new": RevisionState(1, 1, 0, waiting=1), "old": ready(1)}
    step = next_step("new", 1, states, AUTO)
    assert dict(step.replicas) == {"new": 1, "old": 1}
    assert "rollout.strategy: Drain" in step.why


def test_surge_waits_for_an_accelerator_and_says_how_to_go_on() -> None:
    states = {"new": RevisionState(1, 1, 0, waiting=1), "old": ready(3)}
    step = next_step("new", 3, states, SURGE)
    assert dict(step.replicas) == {"new": 1, "old": 3}
    assert "rollout.strategy: Drain" in step.why


def test_drain_replaces_even_the_only_replica() -> None:
    assert dict(next_step("new", 1, {"old": ready(1)}, DRAIN).replicas) == {"new": 1, "old": 0}


def test_drain_never_runs_more_replicas_than_wanted() -> None:
    step = next_step("new", 3, {"old": ready(3)}, DRAIN)
    assert dict(step.replicas) == {"new": 1, "old": 2}


def test_old_replicas_that_do_not_serve_give_up_their_accelerators_first() -> None:
    states = {"new": RevisionState(1, 1, 0, waiting=1), "broken": RevisionState(2, 2, 0)}
    assert dict(next_step("new", 2, states, AUTO).replicas) == {"new": 2, "broken": 0}


def test_what_serves_stays_longest_among_several_old_revisions() -> None:
    states = {"new": ready(1), "older": ready(2), "old": RevisionState(1, 1, 0)}
    assert dict(next_step("new", 3, states, AUTO).replicas) == {"new": 2, "older": 2, "old": 0}


def test_a_revision_is_finished_once_its_last_pod_is_gone() -> None:
    leaving = {"new": ready(2), "old": RevisionState(0, 1, 0)}
    assert next_step("new", 2, leaving, AUTO).finished == ()
    assert next_step("new", 2, leaving, AUTO).why == "revision old leaves"
    gone = {"new": ready(2), "old": RevisionState(0, 0, 0)}
    assert next_step("new", 2, gone, AUTO).finished == ("old",)


@st.composite
def revisions(draw: st.DrawFn) -> RevisionState:
    asked = draw(st.integers(0, 6))
    existing = draw(st.integers(0, asked + 1))
    serving = draw(st.integers(0, existing))
    return RevisionState(asked, existing, serving, draw(st.integers(0, existing - serving)))


@given(
    wanted=st.integers(1, 6),
    new=revisions(),
    old=revisions(),
    older=revisions(),
    strategy=st.sampled_from(list(RolloutStrategy)),
)
def test_a_step_never_takes_more_than_one_of_those_that_serve_below_what_is_wanted(
    wanted: int, new: RevisionState, old: RevisionState, older: RevisionState, strategy: RolloutStrategy
) -> None:
    states = {"new": new, "old": old, "older": older}
    step = next_step("new", wanted, states, strategy)
    before = sum(state.serving for state in states.values())
    after = sum(min(step.replicas[name], state.serving) for name, state in states.items())
    floor = {SURGE: wanted, AUTO: max(1, wanted - 1), DRAIN: wanted - 1}[strategy]
    assert after >= min(before, floor)
    assert step.replicas["new"] <= wanted
    assert all(step.replicas[name] <= states[name].asked for name in ("old", "older"))


@pytest.mark.parametrize("strategy", list(RolloutStrategy))
@pytest.mark.parametrize("wanted", [1, 2, 5])
@pytest.mark.parametrize("spare", [0, 1])
def test_every_rollout_ends_where_it_can_and_settles(strategy: RolloutStrategy, wanted: int, spare: int) -> None:
    accelerators = wanted + spare
    asked, running = {"new": 0, "old": wanted}, {"new": 0, "old": wanted}
    for _ in range(8 * wanted):
        states = {
            name: RevisionState(asked[name], asked[name], running[name], asked[name] - running[name]) for name in asked
        }
        asked = dict(next_step("new", wanted, states, strategy).replicas)
        running["old"] = min(running["old"], asked["old"])
        running["new"] = min(asked["new"], accelerators - running["old"])
    stuck = spare == 0 and (strategy is SURGE or (strategy is AUTO and wanted == 1))
    assert asked == ({"new": 1, "old": wanted} if stuck else {"new": wanted, "old": 0})
