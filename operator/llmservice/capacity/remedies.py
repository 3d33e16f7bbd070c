"""What to write instead when a model does not fit: the cheapest changes that really help."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from llmservice.api.engine import Parallelism
from llmservice.api.fleet import FleetDefaults
from llmservice.api.model import Dtype
from llmservice.api.operations import KvCacheDtype
from llmservice.capacity.accelerators import Accelerator, find_accelerator
from llmservice.capacity.memory import Layout, measure
from llmservice.capacity.models import Model
from llmservice.capacity.quantity import find_bytes, format_gib

HIGHEST_PERCENT: Final = 95
"""Above it the driver's and other processes' memory gets in the way."""

USEFUL_LENGTH: Final = 512
"""A shorter maximum is not worth proposing."""

COUNT: Final = 3


def remedies(
    model: Model, layout: Layout, max_length: int, accelerator: Accelerator, fleet: FleetDefaults, pool: str
) -> tuple[str, ...]:
    """Up to three changes, cheapest first, each of which alone makes one sequence of `max_length` tokens fit."""
    found = (
        *_by_settings(model, layout, max_length, accelerator),
        *_by_hardware(model, layout, max_length, fleet, pool),
    )
    return found[:COUNT] or (
        "No setting and no pool of this fleet is enough: use a smaller or quantised model, or add a larger pool.",
    )


def _fits(model: Model, layout: Layout, max_length: int) -> bool:
    return measure(model, layout).kv_tokens >= max_length


def _by_settings(model: Model, layout: Layout, max_length: int, accelerator: Accelerator) -> Iterator[str]:
    """Changes that need no further hardware."""
    raised = replace(layout, memory_percent=HIGHEST_PERCENT)
    if layout.memory_percent < HIGHEST_PERCENT and _fits(model, raised, max_length):
        yield f"Write spec.kvCache.memoryPercent: {HIGHEST_PERCENT}."
    shorter = measure(model, layout).kv_tokens // 256 * 256
    if USEFUL_LENGTH <= shorter < max_length:
        yield f"Write spec.model.maxLength: {shorter}."
    if layout.kv_dtype is KvCacheDtype.AUTO and accelerator.kv_dtypes:
        name = accelerator.kv_dtypes[0]
        if _fits(model, replace(layout, kv_dtype=KvCacheDtype(name)), max_length):
            yield f"Write spec.kvCache.dtype: {name}."
    if (layout.dtype is Dtype.FLOAT32 or layout.is_cpu) and layout.dtype is not Dtype.BFLOAT16:
        halved = replace(layout, dtype=Dtype.BFLOAT16)
        if _fits(model, halved, max_length):
            yield "Write spec.model.dtype: bfloat16."


def _by_hardware(model: Model, layout: Layout, max_length: int, fleet: FleetDefaults, pool: str) -> Iterator[str]:
    """Changes that need more accelerators, or others."""
    here = find_accelerator(fleet.pools[pool].accelerator) if pool in fleet.pools else None
    if here and not here.slice and not here.is_cpu:
        for tensor in (2, 4, 8):
            split = replace(layout, parallelism=Parallelism(tensor=tensor, pipeline=layout.parallelism.pipeline))
            if tensor > layout.parallelism.tensor and _fits(model, split, max_length):
                yield f"Write spec.engine.parallelism.tensor: {tensor} ({split.accelerators} accelerators each)."
                break
    for name, size in _larger_pools(layout, fleet, pool):
        if _fits(model, replace(layout, memory_bytes=size, is_cpu=False), max_length):
            yield f"Write spec.placement.pool: {name}, with {format_gib(size)} per accelerator."


def _larger_pools(layout: Layout, fleet: FleetDefaults, pool: str) -> list[tuple[str, int]]:
    """Other pools with more memory per accelerator that can take the engine's split, the smallest first."""
    split = layout.parallelism.tensor * layout.parallelism.pipeline > 1
    sizes = []
    for name, other in fleet.pools.items():
        accelerator = find_accelerator(other.accelerator)
        if name == pool or accelerator is None or accelerator.is_cpu or (accelerator.slice and split):
            continue
        size = find_bytes(other.memory) if other.memory else accelerator.memory_bytes
        if size is not None and size > layout.memory_bytes:
            sizes.append((name, size))
    return sorted(sizes, key=lambda pair: (pair[1], pair[0]))
