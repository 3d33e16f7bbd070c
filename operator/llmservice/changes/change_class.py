"""What a difference costs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ChangeClass(StrEnum):
    """What a difference costs, cheapest first."""

    NONE = "None"
    """Nothing that serves is touched."""
    IN_PLACE = "InPlace"
    """Counts change while everything serves."""
    GATE_RELOAD = "GateReload"
    """The gate alone is loaded again while the old one drains."""
    DRAINED_RELOAD = "DrainedReload"
    """The engine starts again with the same files and image: each replica is drained and replaced."""
    ROLLING_RESTART = "RollingRestart"
    """The pod itself differs: each replica is drained and replaced, weights and all."""

    @property
    def cost(self) -> int:
        """Rank among the classes; 0 costs nothing."""
        return list(ChangeClass).index(self)

    @property
    def needs_revision(self) -> bool:
        """Whether running pods cannot take the change, so that new ones must replace them."""
        return self.cost >= ChangeClass.DRAINED_RELOAD.cost


@dataclass(frozen=True)
class Change:
    """One difference: where, what it costs, and why in words."""

    field: str
    change_class: ChangeClass
    reason: str


def worst(changes: tuple[Change, ...]) -> ChangeClass:
    """The dearest class among `changes`."""
    return max((change.change_class for change in changes), key=lambda found: found.cost, default=ChangeClass.NONE)
