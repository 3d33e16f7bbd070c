"""Which blocks of the KV cache belong to which sequence. Pure bookkeeping: the tensors live in `kv_cache`."""

from __future__ import annotations


class BlockManager:
    """A free list over a fixed number of blocks, each holding keys and values of `block_size` tokens.

    A sequence's block table is a plain list of block numbers, in the order of its tokens; only this class changes it.
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._free = list(range(num_blocks - 1, -1, -1))

    @property
    def num_free(self) -> int:
        """Blocks that belong to no sequence."""
        return len(self._free)

    @property
    def capacity_tokens(self) -> int:
        """Tokens that fit when one sequence has the whole cache."""
        return self.num_blocks * self.block_size

    def grow(self, table: list[int], num_tokens: int) -> bool:
        """Extends `table` until it holds `num_tokens` tokens. False, with nothing changed, when blocks are short."""
        missing = -(-num_tokens // self.block_size) - len(table)
        if missing > len(self._free):
            return False
        table.extend(self._free.pop() for _ in range(missing))
        return True

    def release(self, table: list[int]) -> None:
        """Gives all blocks of `table` back and empties it."""
        self._free.extend(reversed(table))
        table.clear()
