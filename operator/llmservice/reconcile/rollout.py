"""How many replicas each revision has next. Pure and level-triggered: it looks only at what is there now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from llmservice.api.operations import RolloutStrategy


@dataclass(frozen=True)
class RevisionState:
    """One revision: replicas its Deployment asks for, pods that exist, pods that are ready, pods no node takes."""

    asked: int
    existing: int
    ready: int
    waiting: int = 0


@dataclass(frozen=True)
class RolloutStep:
    """Replicas by revision, the revisions that may go, and in words what is going on; empty when nothing is."""

    replicas: Mapping[str, int]
    finished: tuple[str, ...]
    why: str


def next_step(current: str, wanted: int, states: Mapping[str, RevisionState], strategy: RolloutStrategy) -> RolloutStep:
    """The step towards `wanted` replicas of `current`.

    Surge: one new replica more than is ready, and old ones leave as new ones become ready, so that never fewer than
    `wanted` serve. Drain: one old replica leaves first, which frees its accelerator. Auto surges, and drains once a
    new replica finds no node.
    """
    new = states.get(current, RevisionState(0, 0, 0))
    old = {name: state for name, state in states.items() if name != current}
    gone = tuple(sorted(name for name, state in old.items() if state.asked == 0 and state.existing == 0))
    serving = sum(state.ready for state in old.values())
    if serving == 0 or wanted == 0:
        # Nothing old serves, so there is nothing to be careful with: all at once.
        return RolloutStep({current: wanted, **dict.fromkeys(old, 0)}, gone, _left(old, gone))
    drains = strategy is RolloutStrategy.DRAIN or (strategy is RolloutStrategy.AUTO and new.waiting > 0)
    missing = max(0, wanted - new.ready)
    keep = max(0, missing - 1) if drains else missing
    replicas = {current: min(wanted, wanted - keep if drains else new.ready + 1), **_share(old, keep)}
    how = "one old replica leaves before each new one, for no accelerator is free" if drains else "new before old"
    why = f"{new.ready} of {wanted} replicas run revision {current}; {how}"
    return RolloutStep(replicas, gone, why)


def _share(old: Mapping[str, RevisionState], keep: int) -> dict[str, int]:
    """`keep` replicas over the old revisions: those that serve stay first, none grows."""
    shared: dict[str, int] = {}
    for name, state in sorted(old.items(), key=lambda item: (-item[1].ready, item[0])):
        shared[name] = min(state.asked, state.ready, keep)
        keep -= shared[name]
    return shared


def _left(old: Mapping[str, RevisionState], gone: tuple[str, ...]) -> str:
    leaving = sorted(set(old) - set(gone))
    return f"revision {', '.join(leaving)} leaves" if leaving else ""
