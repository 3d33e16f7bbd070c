"""The memory plan: how many bytes the weights take, and how many tokens fit into what is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from llmservice.api.engine import Parallelism
from llmservice.api.model import Dtype
from llmservice.api.operations import KvCacheDtype
from llmservice.capacity.models import Model
from llmservice.capacity.quantity import GIB

ACCELERATOR_RESERVE: Final = 2 * GIB
"""Per accelerator: the CUDA context, kernels and their workspaces, and the activations of one step."""

CPU_RESERVE: Final = GIB
"""Triton, gate and engine processes with their libraries, and the activations of one step."""

_DTYPE_BYTES: Final = {Dtype.FLOAT32: 4, Dtype.FLOAT16: 2, Dtype.BFLOAT16: 2}
_KV_BYTES: Final = {KvCacheDtype.FP8_E4M3: 1, KvCacheDtype.FP8_E5M2: 1, KvCacheDtype.INT8: 1}


@dataclass(frozen=True)
class Layout:
    """What decides the memory of one engine, besides the model: types, split, and the share it may take."""

    memory_bytes: int
    memory_percent: int
    dtype: Dtype
    kv_dtype: KvCacheDtype
    parallelism: Parallelism
    is_cpu: bool = False

    @property
    def accelerators(self) -> int:
        """Accelerators of one replica; one for CPU, which is one pool of memory."""
        return 1 if self.is_cpu else self.parallelism.tensor * self.parallelism.pipeline


@dataclass(frozen=True)
class Memory:
    """Memory of one engine over all its accelerators, in bytes; `kv_tokens` in tokens."""

    usable_bytes: int
    weights_bytes: int
    kv_bytes_per_token: int
    kv_tokens: int


def element_bytes(dtype: Dtype, *, is_cpu: bool) -> int:
    """Bytes of one weight. `auto` is half precision on accelerators and, since CPUs compute in it, float32 there."""
    return _DTYPE_BYTES.get(dtype, 4 if is_cpu else 2)


def kv_bytes_per_token(model: Model, layout: Layout) -> int:
    """Bytes of keys and values of one token: `2 · layers · kv_heads · head_size · bytes`.

    The 2 is one key and one value vector; grouped-query attention stores `kv_heads`, not all heads (Kwon et al.,
    "Efficient Memory Management for Large Language Model Serving with PagedAttention", 2023, section 3; Ainslie et
    al., "GQA", 2023). A split over more accelerators than there are KV heads repeats heads, hence the rounding up.
    Llama-2-13B in float16: 2 · 40 · 40 · 128 · 2 = 819,200.
    """
    tensor = 1 if layout.is_cpu else layout.parallelism.tensor
    heads = -(-model.kv_heads // tensor) * tensor
    element = _KV_BYTES.get(layout.kv_dtype, element_bytes(layout.dtype, is_cpu=layout.is_cpu))
    return 2 * model.layers * heads * model.head_size * element


def measure(model: Model, layout: Layout) -> Memory:
    """Memory of one engine: `usable = n · (memory · percent - reserve)`, `tokens = (usable - weights) / per token`.

    Weights are `parameters · bytes`. A split engine is taken as evenly split; norms and, below the KV-head count,
    nothing else is repeated. Tokens are 0, not negative, where the weights alone do not fit.
    """
    reserve = CPU_RESERVE if layout.is_cpu else ACCELERATOR_RESERVE
    usable = layout.accelerators * max(0, layout.memory_bytes * layout.memory_percent // 100 - reserve)
    weights = model.parameters * element_bytes(layout.dtype, is_cpu=layout.is_cpu)
    per_token = kv_bytes_per_token(model, layout)
    return Memory(usable, weights, per_token, max(0, usable - weights) // per_token)
