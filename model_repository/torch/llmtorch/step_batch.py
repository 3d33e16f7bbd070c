"""The tokens of one step laid out for the model: rows, cache slots, and what each row may attend to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from llmtorch.prompt_groups import PromptGroup, like_prompts, prompt_group
from llmtorch.scheduler import Chunk

# Rows whose contexts differ by less than this many blocks share one padded gather whatever their ratio: a call of its
# own costs more than the padding.
SMALL_BLOCKS = 8


@dataclass(frozen=True)
class DecodeGroup:
    """Rows `start` to `end`, one token of a sequence each, whose contexts are of like length.

    `blocks` `[rows * n]` are the block tables, padded to the longest of the group, one after the other; `mask`
    `[rows, 1, 1, n * block_size]` hides what a row must not see.
    """

    start: int
    end: int
    blocks: Tensor
    mask: Tensor


@dataclass(frozen=True)
class Prefill:
    """Several tokens of one sequence: rows `start` to `end` of the step.

    They see `context` tokens from the first of `blocks` `[n]` on, themselves the last; `mask` `[end - start, context]`
    says which of them sees what. It is None where the rows are the whole context and plain causality says the same.
    """

    start: int
    end: int
    context: int
    blocks: Tensor
    mask: Tensor | None


@dataclass(frozen=True)
class View:
    """What the rows may attend to in layers of one window."""

    groups: tuple[DecodeGroup, ...]
    prefills: tuple[Prefill | PromptGroup, ...]


@dataclass(frozen=True)
class StepBatch:
    """The tokens of one step end to end, T in all; rows of one token a sequence first, by length of context.

    `slots` are the places in the cache that the rows' keys and values go to. `last_rows` are the rows whose logits are
    wanted, in the order of the chunks that give a token. `views` holds one for each window of the model.
    """

    token_ids: Tensor
    positions: Tensor
    slots: Tensor
    last_rows: Tensor
    views: dict[int | None, View]


def build_step(
    chunks: Sequence[Chunk],
    block_size: int,
    device: torch.device,
    dtype: torch.dtype,
    windows: Sequence[int | None] = (None,),
    buckets: Sequence[int] = (),
) -> StepBatch:
    """Lays out the chunks. `dtype` is that of the masks, the one attention computes in; `windows` those of layers.

    Prompts in one of the `buckets` of lengths attend together where they are of like length.
    """
    decodes = sorted((c for c in chunks if c.count == 1), key=lambda chunk: chunk.sequence.num_computed)
    # Those that see nothing but themselves first, by length.
    longer = sorted((c for c in chunks if c.count > 1), key=lambda chunk: (chunk.sequence.num_computed, chunk.count))
    token_ids: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    rows: dict[int, int] = {}
    for chunk in (*decodes, *longer):
        sequence, first = chunk.sequence, chunk.sequence.num_computed
        token_ids += sequence.tokens[first : first + chunk.count]
        positions += range(first, first + chunk.count)
        slots += [
            sequence.blocks[p // block_size] * block_size + p % block_size for p in range(first, positions[-1] + 1)
        ]
        rows[sequence.key] = len(token_ids) - 1
    last_rows = [rows[chunk.sequence.key] for chunk in chunks if chunk.gives_token]
    layout = _Layout(block_size, device, dtype, buckets)
    return StepBatch(
        token_ids=torch.tensor(token_ids, device=device),
        positions=torch.tensor(positions, device=device),
        slots=torch.tensor(slots, device=device),
        last_rows=torch.tensor(last_rows, dtype=torch.long, device=device),
        views={window: layout.view(decodes, longer, window) for window in set(windows)},
    )


@dataclass(frozen=True)
class _Layout:
    block_size: int
    device: torch.device
    dtype: torch.dtype
    buckets: Sequence[int]

    def view(self, decodes: Sequence[Chunk], longer: Sequence[Chunk], window: int | None) -> View:
        alone = sum(self._is_alone(chunk, window) for chunk in longer)
        lengths = [chunk.count for chunk in longer[:alone]]
        ranges = like_prompts(lengths, self.buckets) + [(at, at + 1) for at in range(alone, len(longer))]
        prefills: list[Prefill | PromptGroup] = []
        row = len(decodes)
        for start, end in ranges:
            if end - start == 1:
                prefills.append(self.prefill(longer[start], row, window))
            else:
                prefills.append(prompt_group(row, lengths[start:end], self.device))
            row = prefills[-1].end
        return View(tuple(self.groups(decodes, window)), tuple(prefills))

    def _is_alone(self, chunk: Chunk, window: int | None) -> bool:
        """Whether its tokens see all of each other before them and nothing else."""
        return chunk.sequence.num_computed == 0 and (window is None or chunk.count <= window)

    def groups(self, decodes: Sequence[Chunk], window: int | None) -> list[DecodeGroup]:
        """Groups of the rows, which are sorted by length of context."""
        ends = [chunk.sequence.num_computed + 1 for chunk in decodes]
        starts = [0 if window is None else max(0, end - window) for end in ends]
        skipped = [start // self.block_size for start in starts]
        widths = [-(-end // self.block_size) - skip for end, skip in zip(ends, skipped, strict=True)]
        groups = []
        for first, last in like_lengths(widths):
            rows = range(first, last)
            width = max(widths[first:last])
            tables = [decodes[row].sequence.blocks[skipped[row] : skipped[row] + widths[row]] for row in rows]
            # Padded with the row's own first block: whatever another sequence holds cannot reach this one.
            padded = [block for table in tables for block in table + table[:1] * (width - len(table))]
            seen_from = self._numbers(starts[row] - skipped[row] * self.block_size for row in rows)
            seen_to = self._numbers(ends[row] - skipped[row] * self.block_size for row in rows)
            mask = decode_mask(seen_from, seen_to, width * self.block_size, self.dtype)
            groups.append(DecodeGroup(first, last, torch.tensor(padded, device=self.device), mask))
        return groups

    def prefill(self, chunk: Chunk, row: int, window: int | None) -> Prefill:
        first, end = chunk.sequence.num_computed, chunk.sequence.num_computed + chunk.count
        skipped = 0 if window is None else max(0, first - window + 1) // self.block_size
        context = end - skipped * self.block_size
        blocks = torch.tensor(chunk.sequence.blocks[skipped : -(-end // self.block_size)], device=self.device)
        mask = None
        if first or (window is not None and end > window):
            own = first - skipped * self.block_size
            mask = torch.ones(chunk.count, context, dtype=torch.bool, device=self.device).tril_(own)
            if window is not None:
                mask.triu_(own - window + 1)
        return Prefill(row, row + chunk.count, context, blocks, mask)

    def _numbers(self, values: Iterable[int]) -> Tensor:
        return torch.tensor(list(values), device=self.device)


def decode_mask(starts: Tensor, ends: Tensor, tokens: int, dtype: torch.dtype) -> Tensor:
    """`[rows, 1, 1, tokens]`: 0 from a row's start to before its end, minus infinity elsewhere."""
    at = torch.arange(tokens, device=ends.device)
    hidden = (at >= ends[:, None]) | (at < starts[:, None])
    mask = torch.zeros(hidden.shape, dtype=dtype, device=ends.device).masked_fill_(hidden, float("-inf"))
    return mask[:, None, None, :]


def like_lengths(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Ranges of ascending `sizes`, each padded by less than a factor of two, or by a few blocks at most."""
    ranges: list[tuple[int, int]] = []
    end = len(sizes)
    while end > 0:
        longest = sizes[end - 1]
        start = next(i for i in range(end) if longest <= max(2 * sizes[i], sizes[i] + SMALL_BLOCKS))
        ranges.append((start, end))
        end = start
    return ranges[::-1]
