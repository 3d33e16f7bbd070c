"""What the tuner remembers between windows: JSON with a version, bounded in size, never trusted when read back."""

from __future__ import annotations

from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

VERSION: Final = 1
DECISIONS_KEPT: Final = 10


class Memory(BaseModel):
    """A part of the state. A newer version's fields are dropped, not refused; infinities and NaN are."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


def newest(most: int) -> BeforeValidator:
    """Keeps the last `most` items of a sequence, so that no stored state grows."""
    return BeforeValidator(lambda value: value[-most:] if isinstance(value, (list, tuple)) else value)


class PastDecision(Memory):
    """One decision as it is kept for people. `at` has the unit of `now`."""

    at: float
    outcome: str
    reason: str
    changes: tuple[str, ...] = ()
    inputs: tuple[tuple[str, float], ...] = ()


class State(Memory):
    """Everything remembered of one service."""

    version: int = VERSION
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
