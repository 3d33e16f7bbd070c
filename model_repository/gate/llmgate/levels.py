"""Priority levels: how many requests of each may wait, how long, and what they keep free for higher ones."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Final, Self

from llmserving.parameters import ParameterError, Parameters

RESERVE_SHARE: Final = 8
"""One of so many sequences is kept free for higher levels."""


@dataclass(frozen=True)
class Limit:
    """How many requests of a level may wait, and how many seconds; None for no limit."""

    max_size: int | None = None
    timeout: float | None = None


@dataclass(frozen=True)
class Levels:
    """The levels of one service, 1 the highest. Without priorities there is one."""

    limits: tuple[Limit, ...] = (Limit(),)
    default: int = 1

    @classmethod
    def of(cls, parameters: Parameters) -> Self:
        """From `priority_levels`, `default_priority_level` and `queue_limits`. Raises ParameterError."""
        count = max(1, parameters.integer("priority_levels", 1))
        default = parameters.integer("default_priority_level", count, minimum=1)
        if default > count:
            raise ParameterError(
                f"parameters[default_priority_level] in config.pbtxt: {default} is none of {count} levels"
            )
        return cls(_limits(parameters.text("queue_limits", "[]"), count), default)

    @property
    def count(self) -> int:
        """How many levels there are."""
        return len(self.limits)

    def known(self) -> range:
        """All levels, the highest first."""
        return range(1, self.count + 1)

    def limit(self, level: int) -> Limit:
        """The limits of a level."""
        return self.limits[level - 1]

    def slots_left_free(self, level: int, max_sequences: int, slots: int) -> int:
        """Slots of an instance that a request of `level` may not take, so that a higher one finds its place at once.

        The highest level may take all. Lower ones leave every slot beyond `max_sequences`, since a request that waits
        inside the engine for a sequence to end has no place yet, and a share of the sequences that grows to one of
        `RESERVE_SHARE` at the lowest level. Where the engine computes one sequence there is none to keep free.
        """
        if level == 1:
            return 0
        reserve = min(max_sequences - 1, math.ceil(max_sequences / RESERVE_SHARE))
        return max(0, slots - max_sequences) + math.ceil(reserve * (level - 1) / (self.count - 1))


ONE_LEVEL: Final = Levels()
"""No priorities, no limits."""


def _limits(text: str, count: int) -> tuple[Limit, ...]:
    """A JSON list of `{"max_size": 64, "timeout_us": 5000000}`, one for each level; absent means no limit."""
    try:
        given = json.loads(text)
        limits = tuple(
            Limit(one.get("max_size"), None if one.get("timeout_us") is None else one["timeout_us"] / 1e6)
            for one in given
        )
    except (ValueError, AttributeError, TypeError):
        raise ParameterError(
            f"parameters[queue_limits] in config.pbtxt must be a JSON list of one object a level, not {text!r}"
        ) from None
    if limits and len(limits) != count:
        raise ParameterError(f"parameters[queue_limits] in config.pbtxt: {len(limits)} limits for {count} levels")
    return limits or (Limit(),) * count
