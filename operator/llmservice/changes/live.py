"""What a running replica can take without being replaced: which live actions, in which order, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class ReplicaState:
    """What one replica runs: `old_gate_serves` while a replaced gate still has streams of its own."""

    gate_as_wanted: bool
    old_gate_serves: bool
    engine_instances: int


@dataclass(frozen=True)
class ReloadGate:
    """Load the gate again with its wanted configuration."""

    reason: str


@dataclass(frozen=True)
class SetEngineInstances:
    """Bring the engine to `count` instances in place."""

    count: int
    reason: str


LiveAction: TypeAlias = ReloadGate | SetEngineInstances


def live_actions(replica: ReplicaState, engine_instances: int) -> tuple[LiveAction, ...]:
    """Actions that bring `replica` to the wanted gate and to `engine_instances`, in order; empty when nothing differs.

    Instances are added before the gate admits for them and removed after it stopped. While an older gate still serves
    its streams the gate is not reloaded again: each reload would leave two more processes behind. Do the first, look
    again, then the next.
    """
    running = replica.engine_instances
    scale = SetEngineInstances(engine_instances, f"{running} engine instances run, {engine_instances} are wanted")
    grows, shrinks = engine_instances > running, engine_instances < running
    reload_gate = not replica.gate_as_wanted and not replica.old_gate_serves
    actions: list[LiveAction] = [scale] if grows else []
    actions += [ReloadGate("the gate runs with another delay, priorities or limits")] if reload_gate else []
    actions += [scale] if shrinks else []
    return tuple(actions)
