"""What a step in which every sequence decodes is told, in one array of fixed form: batches padded to a few shapes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from llmtorch.scheduler import Chunk
from llmtorch.step_batch import DecodeGroup, StepBatch, View, decode_mask

FEWEST_BLOCKS = 8
MOST_WASTE = 2
"""Padding may make a batch read this many times the blocks that it holds."""
FREE_BLOCKS = 1024
"""So many blocks are padded to whatever they hold: a step by single operators costs more."""


@dataclass(frozen=True)
class Shape:
    """`rows` sequences, each with a block table of `blocks`."""

    rows: int
    blocks: int


class Shapes:
    """Powers of two up to the largest batch and the longest table; the last of each need be none."""

    def __init__(self, most_rows: int, most_blocks: int) -> None:
        self.rows = _doubling(1, most_rows)
        self.blocks = _doubling(min(FEWEST_BLOCKS, most_blocks), most_blocks)

    @property
    def largest(self) -> Shape:
        """The one that every other fits into."""
        return Shape(self.rows[-1], self.blocks[-1])

    def choose(self, tables: Sequence[int]) -> Shape | None:
        """The smallest that holds block tables of these lengths; None where too much of it would be padding."""
        if len(tables) > self.rows[-1] or max(tables) > self.blocks[-1]:
            return None
        shape = Shape(
            self.rows[bisect_left(self.rows, len(tables))], self.blocks[bisect_left(self.blocks, max(tables))]
        )
        read = shape.rows * shape.blocks
        return shape if read <= max(FREE_BLOCKS, MOST_WASTE * sum(tables)) else None


@dataclass(frozen=True)
class DecodeInputs:
    """The form of the array: tokens, positions and slots of all rows, then for each window what the rows may see.

    Rows beyond those of a batch are of a token that is nobody's: they write into `scrap`, a block of no sequence, and
    see nothing else.
    """

    block_size: int
    windows: tuple[int | None, ...]
    scrap: int

    def size(self, shape: Shape) -> int:
        """Numbers in the array."""
        return 3 * shape.rows + sum(shape.rows * (2 + self.width(shape, window)) for window in self.windows)

    def width(self, shape: Shape, window: int | None) -> int:
        """Blocks of a row's table that layers of a window look at."""
        if window is None:
            return shape.blocks
        return min(shape.blocks, -(-(window - 1) // self.block_size) + 1)

    def fill(self, chunks: Sequence[Chunk], shape: Shape) -> list[int]:
        """The array of a batch. Every chunk is of one token, the last of its sequence."""
        size, padding = self.block_size, range(shape.rows - len(chunks))
        rows = [(chunk.sequence, chunk.sequence.num_computed) for chunk in chunks]
        none = [0 for _ in padding]
        numbers = [*(sequence.tokens[first] for sequence, first in rows), *none]
        numbers += [*(first for _, first in rows), *none]
        numbers += [sequence.blocks[first // size] * size + first % size for sequence, first in rows]
        numbers += [self.scrap * size + row % size for row in padding]
        tables = [(sequence.blocks, first + 1) for sequence, first in rows]
        for window in self.windows:
            numbers += self._view(tables, shape, window)
        return numbers

    def _view(self, rows: Sequence[tuple[list[int], int]], shape: Shape, window: int | None) -> Iterator[int]:
        """For each row the first token it sees and the one behind the last, counted from its table's; then tables."""
        width, padding = self.width(shape, window), shape.rows - len(rows)
        starts = [0 if window is None else max(0, end - window) for _, end in rows]
        skipped = [start // self.block_size for start in starts]
        yield from (start - skip * self.block_size for start, skip in zip(starts, skipped, strict=True))
        yield from [0] * padding
        yield from (end - skip * self.block_size for (_, end), skip in zip(rows, skipped, strict=True))
        yield from [1] * padding
        for (blocks, end), skip in zip(rows, skipped, strict=True):
            table = blocks[skip : -(-end // self.block_size)]
            # With the row's own first block, as everywhere: no other sequence's can reach it.
            yield from table + table[:1] * (width - len(table))
        yield from [self.scrap] * (padding * width)

    def step(self, numbers: Tensor, shape: Shape, rows: Tensor, dtype: torch.dtype) -> StepBatch:
        """The step that the array, on the device, tells of. `rows` counts from 0; `dtype` is that of the masks."""
        parts = [shape.rows] * 3
        for window in self.windows:
            parts += [shape.rows, shape.rows, shape.rows * self.width(shape, window)]
        tokens, positions, slots, *views = numbers[: sum(parts)].split_with_sizes(parts)
        found = {}
        for window, at in zip(self.windows, range(0, len(views), 3), strict=True):
            starts, ends, blocks = views[at : at + 3]
            mask = decode_mask(starts, ends, self.width(shape, window) * self.block_size, dtype)
            found[window] = View((DecodeGroup(0, shape.rows, blocks, mask),), ())
        return StepBatch(tokens, positions, slots, rows[: shape.rows], found)


def _doubling(first: int, last: int) -> list[int]:
    found = [first]
    while found[-1] < last:
        found.append(min(2 * found[-1], last))
    return found
