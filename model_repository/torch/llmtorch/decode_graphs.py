"""Decoding steps captured once and replayed: on a GPU, starting a step's kernels one by one takes longer than they do.

A captured step (a CUDA graph) has fixed shapes and addresses. So a batch is padded to one of a few shapes, its numbers
are copied into an array that stays, and the logits are left in another. Each shape is captured when it is first met,
which takes as long as some three steps.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from llmtorch.decode_inputs import DecodeInputs, Shape, Shapes
from llmtorch.kv_cache import KVCache
from llmtorch.model import CausalLM
from llmtorch.scheduler import Chunk

log = logging.getLogger(__name__)
Replay = Callable[[], None]


class Capturer(Protocol):
    """Records what is computed on a device."""

    def capture(self, work: Callable[[], None]) -> Replay:
        """What computes `work` again, on whatever its tensors then hold. Raises `torch.OutOfMemoryError`."""


class CudaCapturer:
    """CUDA graphs, all in one pool of memory: only one of them runs at a time."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool = torch.cuda.graph_pool_handle()
        # One for all: libraries keep their working memory by stream.
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def capture(self, work: Callable[[], None]) -> Replay:
        """See `Capturer`. Runs `work` once before, so that libraries that make themselves ready do it then."""
        with torch.cuda.device(self._device):
            self._stream.wait_stream(torch.cuda.current_stream())
            try:
                with torch.cuda.stream(self._stream):
                    work()
            finally:  # also where memory was short: what was begun still writes into the cache
                torch.cuda.current_stream().wait_stream(self._stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
                work()
        replay: Replay = graph.replay
        return replay


class DecodeGraphs:
    """Captured steps of one model over its cache, for up to `rows` sequences of `max_length` tokens.

    The cache has one block more than it gives out, for rows of padding to write into. All inputs and outputs are
    allocated here, once.
    """

    def __init__(
        self, model: CausalLM, cache: KVCache, capturer: Capturer, device: torch.device, rows: int, max_length: int
    ) -> None:
        self._model, self._cache, self._capturer = model, cache, capturer
        self._dtype = model.embedding.dtype
        self._shapes = Shapes(rows, -(-max_length // cache.block_size))
        windows = tuple(dict.fromkeys(model.config.windows))
        self._inputs = DecodeInputs(cache.block_size, windows, scrap=cache.num_blocks)
        most = self._shapes.largest
        size = self._inputs.size(most)
        self._said = torch.zeros(size, dtype=torch.long, pin_memory=device.type == "cuda")
        self._numbers = torch.zeros(size, dtype=torch.long, device=device)
        self._rows = torch.arange(most.rows, device=device)
        self._logits = torch.zeros(most.rows, model.config.vocab_size, device=device)
        self._replays: dict[Shape, Replay] = {}
        self._too_large: set[Shape] = set()
        """Shapes whose capture found no memory."""

    def logits(self, chunks: Sequence[Chunk]) -> Tensor | None:
        """Logits `[chunks, vocab]` in float32, the caller's until the next step.

        None where the step is not for a graph: it has prompts, too much of it would be padding, or memory was short.
        """
        if not all(chunk.count == 1 and chunk.gives_token for chunk in chunks):
            return None
        size = self._cache.block_size
        shape = self._shapes.choose([chunk.sequence.num_computed // size + 1 for chunk in chunks])
        if shape is None or shape in self._too_large:
            return None
        numbers = self._inputs.fill(chunks, shape)
        said = self._said[: len(numbers)]
        said.copy_(torch.tensor(numbers))  # what was sent before has arrived: its tokens were read since
        self._numbers[: len(numbers)].copy_(said, non_blocking=True)
        replay = self._replays.get(shape) or self._capture(shape)
        if replay is None:
            return None
        replay()
        return self._logits[: len(chunks)]

    def _capture(self, shape: Shape) -> Replay | None:
        def work() -> None:
            step = self._inputs.step(self._numbers, shape, self._rows, self._dtype)
            self._logits[: shape.rows].copy_(self._model.forward(step, self._cache))

        try:
            replay = self._replays[shape] = self._capturer.capture(work)
        except torch.OutOfMemoryError:
            self._too_large.add(shape)
            log.warning("no memory to capture %d sequences with %d blocks: by operators", shape.rows, shape.blocks)
            return None
        log.info("captured a decoding step of %d sequences with %d blocks each", shape.rows, shape.blocks)
        return replay
