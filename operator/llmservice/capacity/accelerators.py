"""The accelerator catalogue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from llmservice.capacity.quantity import GIB


@dataclass(frozen=True)
class Accelerator:
    """One kind of accelerator, or a MIG slice of one.

    `memory_bytes` is what a process can use in all; 0 where only the pool can say (CPU). `slice` marks a MIG device:
    a process sees one of them only, so an engine cannot be split over several. `kv_dtypes` are cache types besides
    the model's own that the hardware can store and read.
    """

    name: str
    memory_bytes: int
    resource: str
    slice: bool = False
    kv_dtypes: tuple[str, ...] = ()

    @property
    def is_cpu(self) -> bool:
        """Whether it is the node's processor."""
        return not self.resource


_A100_KV: Final = ("fp8_e5m2", "int8")
"""Ampere has no fp8 arithmetic, so only fp8_e5m2, which widens to float16 by a shift, and int8 pay off."""


def _slice(gpu: str, profile: str, gib: float) -> Accelerator:
    return Accelerator(
        f"{gpu}-mig-{profile}", int(gib * GIB), f"nvidia.com/mig-{profile}", slice=True, kv_dtypes=_A100_KV
    )


_ALL: Final = (
    Accelerator("cpu", 0, ""),
    # `nvidia-smi` of A100-SXM4: 40,960 and 81,920 MiB, less what driver and ECC tables keep.
    Accelerator("a100-40gb", int(39.5 * GIB), "nvidia.com/gpu", kv_dtypes=_A100_KV),
    Accelerator("a100-80gb", int(79.0 * GIB), "nvidia.com/gpu", kv_dtypes=_A100_KV),
    # GPU instance sizes of NVIDIA's MIG user guide, table "A100 profiles"; resource names of its device plugin with
    # the strategy `mixed`.
    _slice("a100-40gb", "1g.5gb", 4.75),
    _slice("a100-40gb", "2g.10gb", 9.75),
    _slice("a100-40gb", "3g.20gb", 19.62),
    _slice("a100-40gb", "4g.20gb", 19.62),
    _slice("a100-40gb", "7g.40gb", 39.25),
    _slice("a100-80gb", "1g.10gb", 9.5),
    _slice("a100-80gb", "1g.20gb", 19.5),
    _slice("a100-80gb", "2g.20gb", 19.5),
    _slice("a100-80gb", "3g.40gb", 39.25),
    _slice("a100-80gb", "4g.40gb", 39.25),
    _slice("a100-80gb", "7g.80gb", 78.75),
)
ACCELERATORS: Final = {accelerator.name: accelerator for accelerator in _ALL}


def find_accelerator(name: str) -> Accelerator | None:
    """The accelerator with this name, in any case; None where the catalogue has none."""
    return ACCELERATORS.get(name.lower())
