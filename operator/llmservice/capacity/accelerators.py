"""The accelerator catalogue: what each kind of accelerator has, read from `accelerators.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final

from llmservice.capacity.quantity import GIB

GPU_RESOURCE: Final = "nvidia.com/gpu"
PRODUCT_LABEL: Final = "nvidia.com/gpu.product"
"""Written by GPU Feature Discovery; of a MIG device with strategy `single`, the profile follows the product's name."""

MIG_MARK: Final = "-mig-"
FP8_CAPABILITY: Final = (8, 9)
"""Ada and later multiply fp8; earlier GPUs only store it (CUDA programming guide, "Arithmetic Instructions")."""


@dataclass(frozen=True)
class Slice:
    """What makes an accelerator a MIG device: fractions of its GPU, and how many fit on one."""

    gpu: str
    profile: str
    gpu_slices: int
    memory_slices: int
    count: int


@dataclass(frozen=True)
class Accelerator:
    """One kind of accelerator, or a MIG slice of one.

    `memory_bytes` is what a process can use in all; 0 where only the pool can say (CPU). `bandwidth` is in bytes per
    second, `flops` in operations per second by data type, both of the slice where it is one. `resource` is the extended
    resource with the MIG strategy `mixed`, `single_resource` with `single`. `labels` are those of GPU Feature Discovery
    that name its nodes.
    """

    name: str
    memory_bytes: int = 0
    resource: str = ""
    generation: str = "cpu"
    compute_capability: tuple[int, int] = (0, 0)
    bandwidth: float = 0.0
    flops: Mapping[str, float] = field(default_factory=dict)
    link: str = ""
    link_bandwidth: float = 0.0
    labels: Mapping[str, str] = field(default_factory=dict)
    mig: Slice | None = None

    @property
    def is_cpu(self) -> bool:
        """Whether it is the node's processor."""
        return not self.resource

    @property
    def slice(self) -> bool:
        """Whether it is a MIG device: a process sees one of them only, so an engine cannot be split over several."""
        return self.mig is not None

    @property
    def single_resource(self) -> str:
        """The extended resource with the MIG strategy `single`, where all slices of a node are alike."""
        return GPU_RESOURCE if self.resource else ""

    @property
    def computes_fp8(self) -> bool:
        """Whether it multiplies fp8."""
        return self.compute_capability >= FP8_CAPABILITY


CPU: Final = Accelerator("cpu")


@cache
def accelerators() -> Mapping[str, Accelerator]:
    """Every accelerator by its name, the slices beside their GPU."""
    raw = tomllib.loads(files(__package__).joinpath("accelerators.toml").read_text(encoding="utf-8"))
    found = {CPU.name: CPU}
    for name, own in raw.items():
        table = {**raw[own["like"]], **own} if "like" in own else own
        whole = _whole(name, table)
        found[name] = whole
        found |= {item.name: item for item in _slices(whole, table.get("mig", {}))}
    return MappingProxyType(found)


def find_accelerator(name: str) -> Accelerator | None:
    """The accelerator with this name, in any case; None where the catalogue has none."""
    return accelerators().get(name.lower())


def profiles_of(gpu: str) -> tuple[str, ...]:
    """The MIG profiles that `gpu` can be cut into; none where it cannot be, or is unknown."""
    return tuple(item.mig.profile for item in accelerators().values() if item.mig and item.mig.gpu == gpu)


def _whole(name: str, table: Mapping[str, Any]) -> Accelerator:
    major, minor = table["computeCapability"].split(".")
    return Accelerator(
        name=name,
        memory_bytes=int(table["usableGib"] * GIB),
        resource=GPU_RESOURCE,
        generation=table["generation"],
        compute_capability=(int(major), int(minor)),
        bandwidth=table["bandwidth"] * 1e9,
        flops={dtype: value * 1e12 for dtype, value in table["tflops"].items()},
        link=table["link"]["kind"],
        link_bandwidth=table["link"]["bandwidth"] * 1e9,
        labels={PRODUCT_LABEL: table["product"]},
    )


def _slices(gpu: Accelerator, profiles: Mapping[str, Mapping[str, Any]]) -> Iterator[Accelerator]:
    """The MIG devices of `gpu`. A GPU has as many memory slices as its largest profile, and likewise of SMs."""
    for profile, table in profiles.items():
        mig = Slice(gpu.name, profile, table["gpuSlices"], table["memorySlices"], table["count"])
        share = mig.memory_slices / max(item["memorySlices"] for item in profiles.values())
        computing = mig.gpu_slices / max(item["gpuSlices"] for item in profiles.values())
        # A `+` is allowed in no Kubernetes name: the device plugin writes a dot.
        written = profile.replace("+", ".")
        yield Accelerator(
            name=f"{gpu.name}{MIG_MARK}{written}",
            memory_bytes=int(table["usableGib"] * GIB),
            resource=f"nvidia.com/mig-{written}",
            generation=gpu.generation,
            compute_capability=gpu.compute_capability,
            bandwidth=gpu.bandwidth * share,
            flops={dtype: value * computing for dtype, value in gpu.flops.items()},
            labels=gpu.labels,
            mig=mig,
        )
