"""The model as the compiled kernels compute it: weights laid out once, then one call a step."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence as Items

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from llmtorch.config import ModelConfig
from llmtorch.kv_cache import KVCache
from llmtorch.rotary import rotary_frequencies
from llmtorch.scheduler import Chunk

STRIP = 32
"""Columns of a matrix that lie together; `kernels/matrix.h`."""
LARGEST_HEAD = 256
MOST_SHARING = 64
"""Query heads of one key head; `kernels/attention.h`."""

NO_MEMORY = 1
PARTS = (
    "attention matrices",
    "attention",
    "attention matrices",
    "norms",
    "feed-forward",
    "feed-forward",
    "norms",
    "embedding",
    "head",
)
"""What the kinds of phases of a step do, in the order of `llm_seconds` in `kernels/decoder.cpp`."""

Weights = dict[str, Tensor]
Ints = NDArray[np.int32]

_int, _float, _pointer = ctypes.c_int32, ctypes.c_float, ctypes.c_void_p


class _Shape(ctypes.Structure):
    _fields_ = (
        *((name, _int) for name in ("dtype", "layers", "hidden", "intermediate", "vocab", "heads", "kv_heads")),
        *((name, _int) for name in ("head_dim", "block_size", "max_length")),
        ("epsilon", _float),
        *((name, _pointer) for name in ("embedding", "cos", "sin", "norm")),
    )


class _Step(ctypes.Structure):
    _fields_ = (
        *((name, _int) for name in ("rows", "chunks", "wanted")),
        *((name, _pointer) for name in ("tokens", "chunk", "tables", "last_rows", "logits", "best")),
    )


def suits(config: ModelConfig) -> bool:
    """Whether the kernels have room for the model's heads."""
    fits = config.head_dim % 2 == 0 and config.head_dim <= LARGEST_HEAD
    return fits and config.num_heads // config.num_kv_heads <= MOST_SHARING


class NativeDecoder:
    """A decoder of the Llama family on a CPU. Consumes `weights`, in bfloat16 or float32, and lays them out at once.

    So what is left of the memory when this is made is what its cache, which `attach` gives it, may take. Raises
    `KeyError` with the name of a tensor that they lack, `MemoryError` when they do not fit.
    """

    def __init__(
        self,
        library: ctypes.CDLL,
        config: ModelConfig,
        weights: Weights,
        max_length: int,
        threads: int,
        block_size: int,
    ) -> None:
        self.config = config
        self._library = library
        self._kept: list[Tensor] = []
        self.embedding = weights["model.embed_tokens.weight"].contiguous()
        head = self.embedding if config.tied_embeddings else weights.pop("lm_head.weight")
        angles = torch.outer(torch.arange(max_length).float(), rotary_frequencies(config))
        self._shape = _Shape(
            dtype=self.embedding.dtype.itemsize,
            layers=config.num_layers,
            hidden=config.hidden_size,
            intermediate=config.intermediate_size,
            vocab=config.vocab_size,
            heads=config.num_heads,
            kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
            block_size=block_size,
            max_length=max_length,
            epsilon=config.norm_epsilon,
            embedding=self.embedding.data_ptr(),
            cos=self._keep(angles.cos()),
            sin=self._keep(angles.sin()),
            norm=self._keep(weights["model.norm.weight"]),
        )
        library.llm_begin.restype = _pointer
        model = library.llm_begin(ctypes.byref(self._shape), threads)
        if model is None:
            raise MemoryError("no memory is left for the model's buffers")
        self._model: int = model
        self._end = weakref.finalize(self, library.llm_end, _pointer(model))
        self._vectors = [self._layer(index, weights) for index in range(config.num_layers)]
        self._pack(4, 0, head, _strips(np.arange(config.vocab_size)))
        weights.clear()

    def attach(self, cache: KVCache) -> None:
        """Takes the cache, whose tensors it writes and reads from then on."""
        self._cache = cache
        for index, vectors in enumerate(self._vectors):
            numbers, scales = cache.layers[index].tensors()
            self._library.llm_layer(
                _pointer(self._model),
                index,
                (_pointer * len(vectors))(*vectors),
                _pointer(numbers.data_ptr()),
                _pointer(None if scales is None else scales.data_ptr()),
                self.config.windows[index] or 0,
            )

    def close(self) -> None:
        """Ends its threads and gives its memory back."""
        self._end()

    def _layer(self, index: int, weights: Weights) -> tuple[int | None, ...]:
        """Lays out the matrices of a layer; the addresses of its vectors."""
        config = self.config
        prefix = f"model.layers.{index}"
        names = [f"{prefix}.self_attn.{part}_proj" for part in "qkv"]
        heads = config.num_heads + 2 * config.num_kv_heads
        columns = np.arange(heads * config.head_dim).reshape(heads, config.head_dim)
        qkv = torch.cat([weights.pop(f"{name}.weight") for name in names])
        self._pack(0, index, qkv, np.concatenate([_strips(row) for row in columns]))
        self._pack(1, index, weights.pop(f"{prefix}.self_attn.o_proj.weight"), _strips(np.arange(config.hidden_size)))
        gate_up = torch.cat([weights.pop(f"{prefix}.mlp.{part}_proj.weight") for part in ("gate", "up")])
        gate = _strips(np.arange(config.intermediate_size)).reshape(-1, 1, STRIP)
        up = np.where(gate < 0, -1, gate + config.intermediate_size)
        self._pack(2, index, gate_up, np.concatenate([gate, up], axis=1).reshape(-1))
        self._pack(3, index, weights.pop(f"{prefix}.mlp.down_proj.weight"), _strips(np.arange(config.hidden_size)))
        return (
            self._keep(weights[f"{prefix}.input_layernorm.weight"]),
            self._keep(weights[f"{prefix}.post_attention_layernorm.weight"]),
            self._keep(torch.cat([weights.pop(f"{name}.bias") for name in names])) if config.qkv_bias else None,
            self._keep(weights.pop(f"{prefix}.self_attn.o_proj.bias"), STRIP) if config.output_bias else None,
            self._keep(weights[f"{prefix}.self_attn.q_norm.weight"]) if config.qk_norm else None,
            self._keep(weights[f"{prefix}.self_attn.k_norm.weight"]) if config.qk_norm else None,
        )

    def _pack(self, kind: int, layer: int, weight: Tensor, columns: Ints) -> None:
        weight = weight.contiguous()
        done = self._library.llm_pack(
            _pointer(self._model),
            kind,
            layer,
            _pointer(weight.data_ptr()),
            weight.shape[1],
            columns.ctypes.data_as(_pointer),
            len(columns) // STRIP,
        )
        if not done:
            raise MemoryError("no memory is left for the model's weights")

    def _keep(self, vector: Tensor, multiple: int = 1) -> int:
        """The address of a vector in float32, padded with zeros, that lives as long as the model."""
        padding = -vector.shape[-1] % multiple
        kept = torch.nn.functional.pad(vector.float(), (0, padding)).contiguous()
        self._kept.append(kept)
        return kept.data_ptr()

    def step(self, step: StepBuffers, *, logits: Tensor | None = None, best: Ints | None = None) -> None:
        """Computes a step; of its wanted rows the logits, the likeliest tokens, or both.

        `logits` `[wanted, vocab]` float32, `best` `[wanted]`. Raises `RuntimeError` when memory is short.
        """
        told = _Step(
            rows=step.rows,
            chunks=step.num_chunks,
            wanted=step.wanted,
            tokens=step.tokens.ctypes.data,
            chunk=step.chunks.ctypes.data,
            tables=step.tables.ctypes.data,
            last_rows=step.last_rows.ctypes.data,
            logits=None if logits is None else logits.data_ptr(),
            best=None if best is None else best.ctypes.data,
        )
        failed = self._library.llm_step(_pointer(self._model), ctypes.byref(told))
        if failed == NO_MEMORY:
            raise RuntimeError(f"no memory is left for a step of {step.rows} tokens")
        if failed:
            raise RuntimeError(f"a token is outside the vocabulary of {self.config.vocab_size}")

    def part_seconds(self) -> dict[str, float]:
        """Seconds of all steps so far by part of a step, as a clock on the wall counts them."""
        kinds = (ctypes.c_double * len(PARTS))()
        self._library.llm_seconds(_pointer(self._model), kinds)
        parts = dict.fromkeys(PARTS, 0.0)
        for part, seconds in zip(PARTS, kinds, strict=True):
            parts[part] += seconds
        return parts


class StepBuffers:
    """What the kernels are told of a step, in arrays that are made once and grow when a step is larger than any before.

    A row of `chunks` is the chunk's first row, its count, the position of its first token, and where its block table
    begins in `tables`.
    """

    def __init__(self, rows: int, sequences: int) -> None:
        self.tokens: Ints = np.zeros(rows, np.int32)
        self.chunks: Ints = np.zeros((sequences, 4), np.int32)
        self.last_rows: Ints = np.zeros(sequences, np.int32)
        self.tables: Ints = np.zeros(64 * sequences, np.int32)
        self.rows = self.num_chunks = self.wanted = 0

    def fill(self, chunks: Items[Chunk]) -> None:
        """Lays out the chunks, one after the other."""
        tokens: list[int] = []
        tables: list[int] = []
        places: list[tuple[int, int, int, int]] = []
        last_rows: list[int] = []
        for chunk in chunks:
            sequence, count = chunk.sequence, chunk.count
            first = sequence.num_computed
            places.append((len(tokens), count, first, len(tables)))
            if count == 1:
                tokens.append(sequence.tokens[first])
            else:
                tokens += sequence.tokens[first : first + count]
            tables += sequence.blocks
            if chunk.gives_token:
                last_rows.append(len(tokens) - 1)
        self.rows, self.num_chunks, self.wanted = len(tokens), len(places), len(last_rows)
        self.tokens = _put(self.tokens, tokens)
        self.tables = _put(self.tables, tables)
        self.last_rows = _put(self.last_rows, last_rows)
        if len(places) > len(self.chunks):
            self.chunks = np.zeros((2 * len(places), 4), np.int32)
        self.chunks[: len(places)] = places


def _put(array: Ints, values: list[int]) -> Ints:
    if len(values) > len(array):
        array = np.zeros(2 * len(values), np.int32)
    array[: len(values)] = values
    return array


def _strips(columns: NDArray[np.int64]) -> Ints:
    """Columns, filled up with none (-1) to whole strips."""
    return np.pad(columns, (0, -len(columns) % STRIP), constant_values=-1).astype(np.int32)
