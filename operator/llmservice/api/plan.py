"""The capacity plan: what fits on one accelerator."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CapacityPlan:
    """What one replica holds. Bytes are bytes; `fits` is None where the model is not known well enough to say.

    `max_length` is 0 where only the model's files say it.
    """

    pool: str
    accelerator: str
    accelerators_per_replica: int
    max_sequences: int
    max_length: int
    fits: bool | None = None
    weights_bytes: int = 0
    kv_bytes_per_token: int = 0
    kv_tokens: int = 0
    usable_bytes: int = 0
    reason: str = ""
    remedies: tuple[str, ...] = ()
