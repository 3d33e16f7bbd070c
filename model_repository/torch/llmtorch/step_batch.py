"""The tokens of one step laid out for the model: rows, cache slots, and what each row may attend to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from llmtorch.scheduler import Chunk

# Rows whose contexts differ by less than this many blocks share one padded gather whatever their ratio: a call of its
# own costs more than the padding.
SMALL_BLOCKS = 8


@dataclass(frozen=True)
class DecodeGroup:
    """Rows `start` to `end`, one token of a sequence each, whose contexts are of like length.

    `blocks` `[rows * n]` are the block tables, padded to the longest of the group, one after the other; `mask`
    `[rows, 1, 1, n * block_size]` hides what is behind a sequence's own tokens.
    """

    start: int
    end: int
    blocks: Tensor
    mask: Tensor


@dataclass(frozen=True)
class Prefill:
    """Several tokens of one sequence: rows `start` to `end` of the step, the last of its first `context` tokens.

    `blocks` `[n]` are the blocks of that context. `mask` `[end - start, context]` lets a token see itself and what is
    before it; None where the rows are the whole context, so that plain causality says the same.
    """

    start: int
    end: int
    context: int
    blocks: Tensor
    mask: Tensor | None


@dataclass(frozen=True)
class StepBatch:
    """The tokens of one step end to end, T in all; rows of one token a sequence first, by length of context.

    `slots` are the places in the cache that the rows' keys and values go to. `last_rows` are the rows whose logits are
    wanted, in the order of the chunks that give a token.
    """

    token_ids: Tensor
    positions: Tensor
    slots: Tensor
    last_rows: Tensor
    groups: tuple[DecodeGroup, ...]
    prefills: tuple[Prefill, ...]


def build_step(chunks: Sequence[Chunk], block_size: int, device: torch.device, dtype: torch.dtype) -> StepBatch:
    """Lays out the chunks. `dtype` is that of the masks, the one attention computes in."""
    decodes = sorted((c for c in chunks if c.count == 1), key=lambda chunk: chunk.sequence.num_computed)
    longer = [chunk for chunk in chunks if chunk.count > 1]
    token_ids: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    rows: dict[int, int] = {}
    prefills: list[Prefill] = []
    for chunk in (*decodes, *longer):
        sequence, first = chunk.sequence, chunk.sequence.num_computed
        context = first + chunk.count
        row = len(token_ids)
        token_ids += sequence.tokens[first:context]
        positions += range(first, context)
        slots += [sequence.blocks[p // block_size] * block_size + p % block_size for p in range(first, context)]
        rows[sequence.key] = len(token_ids) - 1
        if chunk.count > 1:
            blocks = torch.tensor(sequence.blocks[: -(-context // block_size)], device=device)
            mask = None
            if first:
                mask = torch.ones(chunk.count, context, dtype=torch.bool, device=device).tril(first)
            prefills.append(Prefill(row, len(token_ids), context, blocks, mask))
    last_rows = [rows[chunk.sequence.key] for chunk in chunks if chunk.gives_token]
    return StepBatch(
        token_ids=torch.tensor(token_ids, device=device),
        positions=torch.tensor(positions, device=device),
        slots=torch.tensor(slots, device=device),
        last_rows=torch.tensor(last_rows, dtype=torch.long, device=device),
        groups=tuple(decode_groups(decodes, block_size, device, dtype)),
        prefills=tuple(prefills),
    )


def decode_groups(
    decodes: Sequence[Chunk], block_size: int, device: torch.device, dtype: torch.dtype
) -> list[DecodeGroup]:
    """Groups of the rows, which are sorted by length of context."""
    lengths = [chunk.sequence.num_computed + 1 for chunk in decodes]
    groups = []
    for start, end in like_lengths([-(-length // block_size) for length in lengths]):
        width = -(-lengths[end - 1] // block_size)
        # Padded with the row's own first block: whatever another sequence holds cannot reach this one.
        tables = [chunk.sequence.blocks[:width] for chunk in decodes[start:end]]
        padded = [block for table in tables for block in table + table[:1] * (width - len(table))]
        ends = torch.tensor(lengths[start:end], device=device)[:, None]
        hidden = torch.arange(width * block_size, device=device) >= ends
        mask = torch.zeros(hidden.shape, dtype=dtype, device=device).masked_fill_(hidden, float("-inf"))
        groups.append(DecodeGroup(start, end, torch.tensor(padded, device=device), mask[:, None, None, :]))
    return groups


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
