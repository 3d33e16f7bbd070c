"""What each knob would buy, one at a time, in sequences of the planned length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from llmservice.api.engine import Backend, Parallelism
from llmservice.api.operations import KvCacheDtype
from llmservice.api.plan import Gain
from llmservice.capacity.case import Case
from llmservice.capacity.limits import splits
from llmservice.capacity.quantization import Quantization
from llmservice.capacity.remedies import HIGHEST_PERCENT

COUNT: Final = 6
_PERCENT: Final = 1.02
"""A change that buys less than this is not worth a line."""


def gains(case: Case, kv_dtypes: tuple[KvCacheDtype, ...]) -> tuple[Gain, ...]:
    """The changes that give more sequences, cheapest first; `before` and `after` count the same length."""
    before = case.sequences
    length = case.planned_length
    found = []
    for words, field_path, value, other in _changes(case, kv_dtypes):
        after = other.sequences_of(length)
        if after > before * _PERCENT:
            found.append(Gain(words, field_path, value, before, after))
    return tuple(found[:COUNT])


def _changes(case: Case, kv_dtypes: tuple[KvCacheDtype, ...]) -> Iterator[tuple[str, str, str, Case]]:
    """(in words, field, value, the case so changed)."""
    layout = case.layout
    if kv_dtypes and layout.kv_bytes == layout.dtype_bytes:
        name = kv_dtypes[0].value
        yield f"{name.split('_')[0].upper()} KV", "spec.kvCache.dtype", name, case.with_kv(kv_dtypes[0])
    if layout.instances > 1:
        alone = case.changed(instances=1)
        yield "one engine instance with all of the memory", "spec.tuning.bounds.engineInstances.max", "1", alone
    if layout.memory_percent < HIGHEST_PERCENT:
        raised = case.changed(memory_percent=HIGHEST_PERCENT)
        yield f"{HIGHEST_PERCENT} % of the memory", "spec.kvCache.memoryPercent", str(HIGHEST_PERCENT), raised
    if layout.dtype_bytes > 2:
        halved = case.changed(dtype_bytes=2, kv_bytes=min(2, layout.kv_bytes))
        yield "16-bit weights", "spec.model.dtype", "bfloat16", halved
    if not layout.is_cpu and layout.backend is not Backend.TORCH:
        yield from _of_weights(case)
        yield from _of_split(case)


def _of_weights(case: Case) -> Iterator[tuple[str, str, str, Case]]:
    if case.layout.quantization is not Quantization.NONE:
        return
    if case.accelerator.computes_fp8:
        yield "fp8 weights", "spec.model.source", "an fp8 copy", case.changed(quantization=Quantization.FP8)
    yield "AWQ int4 weights", "spec.model.source", "an AWQ copy", case.changed(quantization=Quantization.AWQ)


def _of_split(case: Case) -> Iterator[tuple[str, str, str, Case]]:
    split = case.layout.parallelism
    wider = replace(case, layout=replace(case.layout, parallelism=Parallelism(tensor=2 * split.tensor)))
    if not case.accelerator.slice and split.pipeline == 1 and splits(2 * split.tensor, case.model):
        words = f"{2 * split.tensor} accelerators per replica"
        yield words, "spec.engine.parallelism.tensor", str(2 * split.tensor), wider
