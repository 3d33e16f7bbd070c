"""How long a replica takes from being asked for to serving, learnt from those that started."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from llmservice.tuning.memory import Memory, newest

KEPT: Final = 12
LONGEST: Final = 3600.0
"""A start that took longer waited for an accelerator, which says nothing of the next one."""


class LeadTime(Memory):
    """Seconds of the last cold starts."""

    seconds: Annotated[tuple[float, ...], newest(KEPT)] = ()


def learn_starts(memory: LeadTime, cold_starts: Sequence[float]) -> LeadTime:
    """`memory` with the cold starts of a window."""
    usable = tuple(one for one in cold_starts if 0.0 < one <= LONGEST)
    return LeadTime(seconds=(*memory.seconds, *usable)[-KEPT:]) if usable else memory


def lead_seconds(memory: LeadTime, prior: float) -> float:
    """A cold start to plan with: the slowest but one of those remembered, `prior` while none is."""
    if not memory.seconds:
        return prior
    ordered = sorted(memory.seconds)
    return ordered[-2] if len(ordered) > 4 else ordered[-1]
