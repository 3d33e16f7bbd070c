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

    @property
    def serving(self) -> int:
        """Ready replicas that are to stay: one that was just taken back still looks ready, and is not counted."""
        return min(self.asked, self.ready)


@dataclass(frozen=True)
class RolloutStep:
    """Replicas by revision, the revisions that may go, and in words what is going on; empty when nothing is."""

    replicas: Mapping[str, int]
    finished: tuple[str, ...]
    why: str


def next_step(current: str, wanted: int, states: Mapping[str, RevisionState], strategy: RolloutStrategy) -> RolloutStep:
    """The step towards `wanted` replicas of revision `current` and none of any other.

    Surge: one new replica more than is ready; old ones leave as new ones become ready, so `wanted` serve throughout.
    Drain: an old replica leaves first, which frees its accelerator; `wanted - 1` serve throughout. Auto surges, and
    drains while a new replica finds no node, but never takes the last replica that serves: only the strategy Drain,
    written by a person, accepts an interruption.
    """
    new = states.get(current, RevisionState(0, 0, 0))
    old = {name: state for name, state in states.items() if name != current}
    finished = tuple(sorted(name for name, state in old.items() if state.asked == 0 and state.existing == 0))
    if wanted == 0 or not any(state.asked for state in old.values()):
        leaving = sorted(old.keys() - set(finished))
        return RolloutStep(
            {current: wanted, **dict.fromkeys(old, 0)},
            finished,
            f"revision {', '.join(leaving)} leaves" if leaving else "",
        )
    drains = strategy is RolloutStrategy.DRAIN or (strategy is RolloutStrategy.AUTO and new.waiting > 0)
    kept = _drain(wanted, new, old, strategy) if drains else _surge(wanted, new, old)
    left = sum(kept.values())
    asked = max(wanted - left, 0 if strategy is RolloutStrategy.DRAIN else min(wanted, new.serving + 1))
    return RolloutStep({current: asked, **kept}, finished, _why(current, wanted, new, left, strategy))


def _surge(wanted: int, new: RevisionState, old: Mapping[str, RevisionState]) -> dict[str, int]:
    """Old replicas that stay: as many as the new ones do not yet replace, ready or not; they are in nobody's way."""
    missing = max(0, wanted - new.serving)
    serving = _share({name: state.serving for name, state in old.items()}, missing)
    others = {name: state.asked - serving[name] for name, state in old.items()}
    idle = _share(others, missing - sum(serving.values()))
    return {name: serving[name] + idle[name] for name in serving}


def _drain(
    wanted: int, new: RevisionState, old: Mapping[str, RevisionState], strategy: RolloutStrategy
) -> dict[str, int]:
    """Old replicas that stay: those that serve, less one. Those that do not serve only hold accelerators."""
    floor = wanted - 1 if strategy is RolloutStrategy.DRAIN else max(1, wanted - 1)
    return _share({name: state.serving for name, state in old.items()}, max(0, floor - new.serving))


def _share(have: Mapping[str, int], keep: int) -> dict[str, int]:
    """`keep` replicas over revisions that have some, largest first, so that few revisions run beside each other."""
    shared: dict[str, int] = {}
    for name, count in sorted(have.items(), key=lambda item: (-item[1], item[0])):
        shared[name] = min(count, keep)
        keep -= shared[name]
    return shared


def _why(current: str, wanted: int, new: RevisionState, left: int, strategy: RolloutStrategy) -> str:
    done = f"{new.serving} of {wanted} replicas run revision {current}"
    if strategy is RolloutStrategy.DRAIN:
        return f"{done}; one old replica leaves before each new one"
    if not new.waiting:
        return f"{done}; each new replica is ready before an old one leaves"
    if strategy is RolloutStrategy.AUTO and left + new.serving < wanted:
        return f"{done}; no accelerator is free, so one old replica leaves before each new one"
    return (
        f"{done}; no accelerator is free and the old replica is kept, so that the service stays up: free one, "
        "or write rollout.strategy: Drain to accept an interruption"
    )
