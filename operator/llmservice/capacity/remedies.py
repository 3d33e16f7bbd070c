"""What to write instead when a model does not fit: the cheapest changes that really help."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from llmservice.api.engine import Backend, Parallelism
from llmservice.api.fleet import FleetDefaults
from llmservice.api.operations import KvCacheDtype
from llmservice.capacity.accelerators import find_accelerator
from llmservice.capacity.case import Case
from llmservice.capacity.limits import splits
from llmservice.capacity.quantity import find_bytes, format_gib
from llmservice.capacity.quantization import Quantization

HIGHEST_PERCENT: Final = 95
"""Above it the driver's and other processes' memory gets in the way."""

USEFUL_LENGTH: Final = 512
"""A shorter maximum is not worth proposing."""

COUNT: Final = 3

_TENSORS: Final = (1, 2, 4, 8)
"""More than eight accelerators are on several nodes."""


def remedies(case: Case, fleet: FleetDefaults, kv_dtypes: tuple[KvCacheDtype, ...]) -> tuple[str, ...]:
    """Up to three changes, cheapest first, each of which alone makes one sequence of the maximum length fit."""
    found = (*_by_settings(case, kv_dtypes), *_by_weights(case), *_by_hardware(case, fleet))
    return found[:COUNT] or (
        "No setting and no pool of this fleet is enough: use a smaller or quantised model, or add a larger pool.",
    )


def smallest_pool(case: Case, fleet: FleetDefaults) -> str:
    """The pool with the least memory per accelerator on which the service fits as it is; empty where none does."""
    too_small = 0
    for name, size in sorted(_pools(fleet, split=case.layout.accelerators > 1), key=lambda pool: (pool[1], pool[0])):
        if size <= too_small:
            continue
        if replace(case, layout=replace(case.layout, memory_bytes=size, is_cpu=False)).fits:
            return name
        too_small = size
    return ""


def _by_settings(case: Case, kv_dtypes: tuple[KvCacheDtype, ...]) -> Iterator[str]:
    """Changes that need no further hardware and no other files."""
    layout = case.layout
    if layout.instances > 1 and case.changed(instances=1).fits:
        yield "Write spec.tuning.bounds.engineInstances.min: 1."
    if layout.memory_percent < HIGHEST_PERCENT and case.changed(memory_percent=HIGHEST_PERCENT).fits:
        yield f"Write spec.kvCache.memoryPercent: {HIGHEST_PERCENT}."
    shorter = min(case.tokens, case.max_length - 1) // 256 * 256
    if shorter >= USEFUL_LENGTH and case.sequences_of(shorter):
        yield f"Write spec.model.maxLength: {shorter}."
    if kv_dtypes and layout.kv_bytes == layout.dtype_bytes and case.with_kv(kv_dtypes[0]).fits:
        yield f"Write spec.kvCache.dtype: {kv_dtypes[0].value}."
    if layout.dtype_bytes > 2 and case.changed(dtype_bytes=2, kv_bytes=2).fits:
        yield "Write spec.model.dtype: bfloat16."


def _by_weights(case: Case) -> Iterator[str]:
    """Other files of the same model, which only vLLM and TensorRT-LLM read."""
    if case.layout.quantization is not Quantization.NONE or case.layout.backend is Backend.TORCH or case.layout.is_cpu:
        return
    if case.accelerator.computes_fp8 and case.changed(quantization=Quantization.FP8).fits:
        yield "Use an fp8 copy of the model."
    elif case.changed(quantization=Quantization.AWQ).fits:
        yield "Use an AWQ int4 copy of the model."


def _by_hardware(case: Case, fleet: FleetDefaults) -> Iterator[str]:
    """Changes that need more accelerators or others, by the memory they add."""
    found: list[tuple[int, str]] = []
    layout = case.layout
    if not (case.accelerator.slice or layout.is_cpu or layout.backend is Backend.TORCH):
        found += _wider(case)
    for name, size in _pools(fleet, split=layout.accelerators > 1):
        if size <= layout.memory_bytes or name == case.pool:
            continue
        if replace(case, layout=replace(layout, memory_bytes=size, is_cpu=False)).fits:
            words = f"Write spec.placement.pool: {name}, with {format_gib(size)} per accelerator."
            found.append((size * layout.accelerators, words))
    ordered: dict[int, str] = {}
    for memory, words in sorted(found):
        ordered.setdefault(memory, words)  # of pools alike, one is enough to know
    yield from ordered.values()
    if not ordered and layout.backend is not Backend.TORCH:
        yield from _elsewhere(case, fleet)


def _wider(case: Case) -> Iterator[tuple[int, str]]:
    """The least further split on the same pool that helps."""
    layout = case.layout
    for tensor in _TENSORS:
        if tensor <= layout.parallelism.tensor or not splits(tensor, case.model):
            continue
        split = case.changed(parallelism=Parallelism(tensor=tensor, pipeline=layout.parallelism.pipeline))
        if split.fits:
            count = split.layout.accelerators
            words = f"Write spec.engine.parallelism.tensor: {tensor} ({count} accelerators each)."
            yield count * layout.memory_bytes, words
            return


def _elsewhere(case: Case, fleet: FleetDefaults) -> Iterator[str]:
    """Another pool and a wider split together, where neither is enough alone."""
    found = []
    for name, size in _pools(fleet, split=True):
        moved = replace(case, pool=name, layout=replace(case.layout, memory_bytes=size, is_cpu=False))
        for cost, words in _wider(moved):
            found.append((cost, f"{words.removesuffix('.')} and spec.placement.pool: {name}."))
    yield from (words for _, words in sorted(found)[:1])


def _pools(fleet: FleetDefaults, *, split: bool) -> list[tuple[str, int]]:
    """Pools of accelerators that an engine, split or not, can run on, with the memory of one."""
    sizes = []
    for name, pool in fleet.pools.items():
        accelerator = find_accelerator(pool.accelerator)
        if accelerator is None or accelerator.is_cpu or (accelerator.slice and split):
            continue
        size = find_bytes(pool.memory) if pool.memory else accelerator.memory_bytes
        if size:
            sizes.append((name, size))
    return sizes
