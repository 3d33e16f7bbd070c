"""One model on one kind of accelerator: the question that every part of the plan asks again with one thing changed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Self

from llmservice.api.engine import Backend
from llmservice.api.operations import KvCacheDtype
from llmservice.capacity.accelerators import Accelerator
from llmservice.capacity.architecture import Model
from llmservice.capacity.kv_dtypes import kv_bytes, kv_scale_bytes
from llmservice.capacity.memory import Layout, Memory, measure, sequence_bytes

USUAL_LENGTH_DIVISOR: Final = 4
"""vLLM and TensorRT-LLM page the cache and preempt when it is full, so they are planned for sequences of a quarter of
the maximum length. The torch engine is planned for full ones."""


@dataclass(frozen=True)
class Case:
    """What is planned. `max_length` is in tokens; `pool` only names the place."""

    model: Model
    layout: Layout
    accelerator: Accelerator
    max_length: int
    pool: str

    def changed(self, **layout: object) -> Self:
        """The same with fields of the layout changed."""
        return replace(self, layout=replace(self.layout, **layout))  # type: ignore[arg-type]

    def with_kv(self, dtype: KvCacheDtype) -> Self:
        """The same with another type of the cache."""
        layout = self.layout
        scale = kv_scale_bytes(dtype, layout.backend)
        return self.changed(kv_bytes=kv_bytes(dtype, layout.dtype_bytes), kv_scale_bytes=scale)

    @cached_property
    def memory(self) -> Memory:
        """What the layout measures."""
        return measure(self.model, self.layout)

    @property
    def planned_length(self) -> int:
        """The length of sequences that the plan counts with, in tokens."""
        divisor = 1 if self.layout.backend is Backend.TORCH else USUAL_LENGTH_DIVISOR
        return max(1, self.max_length // divisor)

    @property
    def longest_bytes(self) -> int:
        """Bytes of one sequence of the maximum length on the fullest accelerator."""
        return sequence_bytes(self.model, self.layout, self.max_length)

    @property
    def sequences(self) -> int:
        """Sequences of the planned length that the cache holds at once."""
        return self.sequences_of(self.planned_length)

    @property
    def fits(self) -> bool:
        """Whether one sequence of the maximum length has room beside the weights."""
        return self.sequences_of(self.max_length) > 0

    @property
    def tokens(self) -> int:
        """Tokens that the cache holds, in sequences of the maximum length; windows that slide need less for more."""
        length = max(1, self.max_length)
        return self.memory.kv_budget_bytes * length // max(1, sequence_bytes(self.model, self.layout, length))

    def sequences_of(self, length: int) -> int:
        """Sequences of `length` tokens that the cache holds at once, in whole blocks, one of which vLLM keeps empty."""
        block = self.layout.block_tokens
        whole = -(-max(1, length) // block) * block
        empty = sequence_bytes(self.model, self.layout, block) if self.layout.backend is Backend.VLLM else 0
        room = max(0, self.memory.kv_budget_bytes - empty)
        return room // max(1, sequence_bytes(self.model, self.layout, whole))
