"""The paged cache of keys and values: preallocated tensors, and how many blocks fit."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from llmserving.host_memory import give_back_freed_memory, host_memory
from llmtorch.config import ModelConfig
from llmtorch.float8 import FP8, SCALE_DTYPE, narrow, widen
from llmtorch.options import EngineOptions, OptionError


class LayerCache:
    """Keys and values of one layer, `[blocks, block_size, 2 * kv_heads, head_dim]`: of a token, all keys come first."""

    rounds = False

    def __init__(self, blocks: Tensor) -> None:
        self._blocks = blocks
        self._slots = blocks.view(-1, *blocks.shape[2:])

    def write(self, kv: Tensor, slots: Tensor) -> None:
        """Stores keys and values `[T, 2 * kv_heads, head_dim]` of T tokens."""
        self._slots.index_copy_(0, slots, kv.to(self._slots.dtype))

    def read(self, blocks: Tensor, dtype: torch.dtype) -> Tensor:
        """Keys and values of all tokens of `blocks` `[n]`, `[n * block_size, 2 * kv_heads, head_dim]`."""
        return self._blocks.index_select(0, blocks).flatten(0, 1).to(dtype)

    def tensors(self) -> tuple[Tensor, Tensor | None]:
        """Its numbers; no scales."""
        return self._blocks, None


class ScaledLayerCache:
    """The same in FP8 (E4M3), with a scale for each head of each token.

    Scales are powers of two: that moves the range and rounds nothing, and a code is half of a bfloat16 already.
    """

    rounds = True

    def __init__(self, codes: Tensor, scales: Tensor) -> None:
        """`codes` like a `LayerCache`'s blocks, bytes; `scales` `[blocks, block_size, 2 * kv_heads, 1]`, bfloat16."""
        self._codes = codes
        self._scales = scales

    def write(self, kv: Tensor, slots: Tensor) -> None:
        """Stores keys and values `[T, 2 * kv_heads, head_dim]` of T tokens."""
        codes, scales = narrow(kv)
        self._codes.view(-1, *self._codes.shape[2:]).index_copy_(0, slots, codes)
        self._scales.view(-1, *self._scales.shape[2:]).index_copy_(0, slots, scales)

    def read(self, blocks: Tensor, dtype: torch.dtype) -> Tensor:
        """Keys and values of all tokens of `blocks` `[n]`, `[n * block_size, 2 * kv_heads, head_dim]`."""
        codes, scales = (part.index_select(0, blocks).flatten(0, 1) for part in (self._codes, self._scales))
        return widen(codes, scales, dtype)

    def tensors(self) -> tuple[Tensor, Tensor | None]:
        """Its codes and their scales."""
        return self._codes, self._scales


AnyLayerCache = LayerCache | ScaledLayerCache


class KVCache:
    """The cache of all layers.

    Zeroed, not just allocated: a masked position weighs nothing, but 0 times NaN would still be NaN. Behind the
    `num_blocks` that sequences may have there are `spare` ones.
    """

    def __init__(
        self,
        config: ModelConfig,
        num_blocks: int,
        block_size: int,
        dtype: torch.dtype,
        device: torch.device,
        spare: int = 0,
    ) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        shape = (config.num_layers, num_blocks + spare, block_size, 2 * config.num_kv_heads, config.head_dim)
        self.layers: tuple[AnyLayerCache, ...]
        if dtype is FP8:
            codes = zeros(shape, torch.uint8, device)
            scales = torch.ones((*shape[:-1], 1), dtype=SCALE_DTYPE, device=device)
            self.layers = tuple(map(ScaledLayerCache, codes, scales))
        else:
            self.layers = tuple(map(LayerCache, zeros(shape, dtype, device)))


def zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Zeros; on a CPU they are pages that the kernel gives when they are first written, so that a start waits for none.

    torch itself writes every page.
    """
    if device.type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    return torch.from_numpy(np.zeros(math.prod(shape) * dtype.itemsize, np.uint8)).view(dtype).view(shape)


def block_bytes(config: ModelConfig, block_size: int, dtype: torch.dtype) -> int:
    """Bytes of one block over all layers, keys and values, and of FP8 the scales."""
    scale = SCALE_DTYPE.itemsize * config.num_kv_heads if dtype is FP8 else 0
    return 2 * config.num_layers * block_size * (config.kv_size * dtype.itemsize + scale)


def number_of_blocks(
    options: EngineOptions, config: ModelConfig, max_length: int, dtype: torch.dtype, device: torch.device
) -> int:
    """Blocks for every sequence at its longest, or as many as the memory left by the weights holds.

    Raises `OptionError` when not even one block fits.
    """
    if options.cache_blocks is not None:
        return options.cache_blocks
    wanted = options.sequences * -(-max_length // options.block_size)
    free = free_memory(options.memory_percent, device)
    fitting = free // block_bytes(config, options.block_size, dtype)
    if fitting < 1:
        raise OptionError(
            f"no memory is left for the KV cache ({free / 1e9:.2f} GB of {options.memory_percent} %): "
            "raise spec.kvCache.memoryPercent or the memory limit, or use a smaller model or dtype"
        )
    return min(wanted, fitting)


def free_memory(memory_percent: int, device: torch.device) -> int:
    """Bytes that may still be taken when `memory_percent` of the device's memory may be used in all."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
    else:
        give_back_freed_memory()
        free, total = host_memory()
    return max(0, free - total * (100 - memory_percent) // 100)
