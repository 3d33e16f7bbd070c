"""The model behind its cache: the chunks of a step in, logits or likeliest tokens out."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Items
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from llmtorch.decode_graphs import DecodeGraphs
from llmtorch.kv_cache import KVCache
from llmtorch.model import CausalLM
from llmtorch.native_decoder import NativeDecoder, StepBuffers
from llmtorch.scheduler import Chunk
from llmtorch.step_batch import build_step


class Runner(Protocol):
    """Computes a step. Rows are the chunks that give a token, in their order.

    Raises `RuntimeError` when the step fails, for want of memory mostly.
    """

    def logits(self, chunks: Items[Chunk]) -> Tensor:
        """Logits `[rows, vocab]` in float32, the caller's to change until the next step."""

    def likeliest(self, chunks: Items[Chunk]) -> list[int]:
        """The token with the largest logit of each row, the first of equal ones."""

    def part_seconds(self) -> Mapping[str, float]:
        """Seconds of all steps so far by part of a step; empty where nobody counts them."""

    def close(self) -> None:
        """Frees what it holds; it computes nothing after."""


class TorchRunner:
    """By torch's operators, on any device. Prompts in one of the `buckets` of lengths may attend together.

    Steps that only decode are replayed from `graphs` where there are any.
    """

    def __init__(
        self,
        model: CausalLM,
        cache: KVCache,
        device: torch.device,
        buckets: Items[int],
        graphs: DecodeGraphs | None = None,
    ) -> None:
        self._model, self._cache, self._device, self._buckets = model, cache, device, buckets
        self._graphs = graphs

    @torch.inference_mode()
    def logits(self, chunks: Items[Chunk]) -> Tensor:
        """See `Runner`."""
        replayed = None if self._graphs is None else self._graphs.logits(chunks)
        if replayed is not None:
            return replayed
        dtype, windows = self._model.embedding.dtype, self._model.config.windows
        step = build_step(chunks, self._cache.block_size, self._device, dtype, windows, self._buckets)
        return self._model.forward(step, self._cache)

    def likeliest(self, chunks: Items[Chunk]) -> list[int]:
        """See `Runner`."""
        tokens: list[int] = self.logits(chunks).argmax(dim=-1).tolist()
        return tokens

    def part_seconds(self) -> Mapping[str, float]:
        """See `Runner`."""
        return {}

    def close(self) -> None:
        """See `Runner`."""
        del self._model, self._cache, self._graphs


class NativeRunner:
    """By the compiled kernels, with arrays made for `rows` tokens and `sequences` chunks a step."""

    def __init__(self, model: NativeDecoder, rows: int, sequences: int) -> None:
        self._model = model
        self._step = StepBuffers(rows, sequences)
        self._logits = torch.empty(0, model.config.vocab_size)
        self._best = np.zeros(sequences, np.int32)

    def logits(self, chunks: Items[Chunk]) -> Tensor:
        """See `Runner`."""
        self._step.fill(chunks)
        if self._step.wanted > len(self._logits):
            self._logits = torch.empty(self._step.wanted, self._model.config.vocab_size)
        logits = self._logits[: self._step.wanted]
        self._model.step(self._step, logits=logits)
        return logits

    def likeliest(self, chunks: Items[Chunk]) -> list[int]:
        """See `Runner`."""
        self._step.fill(chunks)
        if self._step.wanted > len(self._best):
            self._best = np.zeros(self._step.wanted, np.int32)
        self._model.step(self._step, best=self._best)
        tokens: list[int] = self._best[: self._step.wanted].tolist()
        return tokens

    def part_seconds(self) -> Mapping[str, float]:
        """See `Runner`."""
        return self._model.part_seconds()

    def close(self) -> None:
        """See `Runner`."""
        self._model.close()
