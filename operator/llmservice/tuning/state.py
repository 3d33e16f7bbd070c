"""What the tuner remembers between windows: JSON with a version, bounded in size, never trusted when read back."""

from __future__ import annotations

from typing import Annotated, Any, Final, Self

from pydantic import ValidationError

from llmservice.tuning.bursts_felt import BurstsFelt
from llmservice.tuning.guard import Guard
from llmservice.tuning.learnt import Learnt
from llmservice.tuning.memory import Memory, newest
from llmservice.tuning.trial import Trial

VERSION: Final = 1
DECISIONS_KEPT: Final = 10


class PastDecision(Memory):
    """One decision as it is kept for people. `at` has the unit of `now`."""

    at: float
    outcome: str
    reason: str
    changes: tuple[str, ...] = ()
    inputs: tuple[tuple[str, float], ...] = ()


class Asked(Memory):
    """The knobs that were asked for last. Delay in seconds."""

    delay: float
    instances: int
    slots: int
    replicas: int


class State(Memory):
    """Everything remembered of one service."""

    version: int = VERSION
    learnt: Learnt = Learnt()
    guard: Guard = Guard()
    bursts_felt: BurstsFelt = BurstsFelt()
    trial: Trial | None = None
    generation: int = 0
    """Of the spec that `asked` belongs to."""
    asked: Asked | None = None
    last_good: Asked | None = None
    """The last knobs that were proven, or that somebody else set."""
    decisions: Annotated[tuple[PastDecision, ...], newest(DECISIONS_KEPT)] = ()

    @classmethod
    def read(cls, stored: object) -> Self:
        """The state in `stored`, as `dump` gave it. Anything else, or another version's, is forgotten: a fresh one."""
        try:
            state = cls.model_validate(stored)
        except ValidationError:
            return cls()
        return state if state.version == VERSION else cls()

    def dump(self) -> dict[str, Any]:
        """The state as JSON."""
        return self.model_dump(mode="json", exclude_defaults=True) | {"version": self.version}
