"""The base of everything remembered between windows."""

from __future__ import annotations

from pydantic import BaseModel, BeforeValidator, ConfigDict


class Memory(BaseModel):
    """A part of the state. A newer version's fields are dropped, not refused; infinities and NaN are refused."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


def newest(most: int) -> BeforeValidator:
    """Keeps the last `most` items of a sequence, so that no stored state grows."""
    return BeforeValidator(lambda value: value[-most:] if isinstance(value, (list, tuple)) else value)
