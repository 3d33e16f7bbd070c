"""Which live actions a replica needs, and in which order."""

from __future__ import annotations

import pytest

from llmservice.changes.live import LiveAction, ReloadGate, ReplicaState, SetEngineInstances, live_actions

pytestmark = pytest.mark.unit


def kinds(actions: tuple[LiveAction, ...]) -> list[str]:
    return [type(action).__name__ for action in actions]


def test_a_replica_as_wanted_needs_nothing() -> None:
    assert live_actions(ReplicaState(gate_as_wanted=True, old_gate_serves=False, engine_instances=1), 1) == ()


def test_instances_are_added_before_the_gate_admits_for_them() -> None:
    replica = ReplicaState(gate_as_wanted=False, old_gate_serves=False, engine_instances=1)
    assert kinds(live_actions(replica, 2)) == ["SetEngineInstances", "ReloadGate"]


def test_instances_are_removed_after_the_gate_stopped_admitting_for_them() -> None:
    replica = ReplicaState(gate_as_wanted=False, old_gate_serves=False, engine_instances=2)
    assert kinds(live_actions(replica, 1)) == ["ReloadGate", "SetEngineInstances"]


def test_the_gate_waits_for_the_older_gate_and_the_engine_does_not() -> None:
    replica = ReplicaState(gate_as_wanted=False, old_gate_serves=True, engine_instances=1)
    assert live_actions(replica, 1) == ()
    assert kinds(live_actions(replica, 2)) == ["SetEngineInstances"]


def test_an_action_says_what_it_wants_and_why() -> None:
    replica = ReplicaState(gate_as_wanted=True, old_gate_serves=False, engine_instances=1)
    action = live_actions(replica, 3)[0]
    assert isinstance(action, SetEngineInstances)
    assert action.count == 3
    assert action.reason == "1 engine instances run, 3 are wanted"
    assert ReloadGate("because").reason == "because"
