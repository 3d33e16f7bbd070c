"""Which blocks of the KV cache belong to which sequence. Pure bookkeeping: the tensors live in `kv_cache`.

A full block keeps its contents when the last sequence leaves it, until the room is needed: a sequence that begins with
the same tokens takes it over instead of computing it (automatic prefix caching, as in vLLM's design document
docs/design/prefix_caching.md).
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from hashlib import blake2b


class BlockManager:
    """References to a fixed number of blocks, each holding keys and values of `block_size` tokens.

    A sequence's block table is a plain list of block numbers, in the order of its tokens; only this class changes it.
    A block is in one of three states: referenced by tables, idle (unreferenced, with contents that may be asked for
    again, evicted least recently used first) or free.
    """

    def __init__(self, num_blocks: int, block_size: int, *, prefix_caching: bool = True) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.prefix_caching = prefix_caching
        self._free = list(range(num_blocks - 1, -1, -1))
        self._idle: OrderedDict[int, None] = OrderedDict()
        self._references = [0] * num_blocks
        self._names: list[bytes | None] = [None] * num_blocks
        self._by_name: dict[bytes, int] = {}

    @property
    def num_free(self) -> int:
        """Blocks that belong to no sequence."""
        return len(self._free) + len(self._idle)

    @property
    def capacity_tokens(self) -> int:
        """Tokens that fit when one sequence has the whole cache."""
        return self.num_blocks * self.block_size

    def grow(self, table: list[int], num_tokens: int) -> bool:
        """Extends `table` until it holds `num_tokens` tokens. False, with nothing changed, when blocks are short."""
        missing = -(-num_tokens // self.block_size) - len(table)
        if missing <= 0:
            return True
        if missing > self.num_free:
            return False
        for _ in range(missing):
            block = self._free.pop() if self._free else self._evict()
            self._references[block] = 1
            table.append(block)
        return True

    def reuse(self, table: list[int], names: Iterable[bytes]) -> int:
        """Puts the blocks that hold what `names` begins with into the empty `table`; returns how many."""
        for name in names:
            block = self._by_name.get(name)
            if block is None:
                break
            if self._references[block] == 0:
                del self._idle[block]
            self._references[block] += 1
            table.append(block)
        return len(table)

    def keep(self, block: int, name: bytes) -> None:
        """Says what a block now holds. A second block with the same contents stays without a name."""
        if self.prefix_caching and self._names[block] is None and name not in self._by_name:
            self._names[block] = name
            self._by_name[name] = block

    def release(self, table: list[int]) -> None:
        """Gives all blocks of `table` back and empties it. The last block goes idle first: it is asked for least."""
        for block in reversed(table):
            self._references[block] -= 1
            if self._references[block]:
                continue
            if self._names[block] is None:
                self._free.append(block)
            else:
                self._idle[block] = None
        table.clear()

    def _evict(self) -> int:
        block, _ = self._idle.popitem(last=False)
        name = self._names[block]
        assert name is not None  # noqa: S101 -- only blocks with a name go idle
        del self._by_name[name]
        self._names[block] = None
        return block


def extend_names(names: list[bytes], tokens: Sequence[int], block_size: int) -> None:
    """Appends the names of the full blocks of `tokens` that `names` lacks.

    A name stands for all tokens up to the end of its block. It is a cryptographic hash: with a weaker one a client
    could make a prompt that takes over the cached blocks of another's.
    """
    for start in range(len(names) * block_size, len(tokens) - block_size + 1, block_size):
        parent = names[-1] if names else b""
        block = array("q", tokens[start : start + block_size])
        names.append(blake2b(block.tobytes(), key=parent, digest_size=16).digest())
