"""One sequence of tokens while it is inside the engine, and what of it is in the cache."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(eq=False, slots=True)
class Sequence:
    """`tokens` is prompt plus answer; keys and values of the first `num_computed` of them are in the cache.

    `rank` orders the sequences, a smaller one goes first and gives way last; no two are equal. One that waits takes the
    place of one that runs only when its `level` is smaller too. `blocks` is the block table, `hashes` names the
    contents of the blocks that are full.
    """

    key: int
    tokens: list[int]
    num_prompt: int
    rank: tuple[float, int]
    level: int = 0
    batch: int | None = None
    num_computed: int = 0
    blocks: list[int] = field(default_factory=list)
    hashes: list[bytes] = field(default_factory=list)

    @property
    def num_pending(self) -> int:
        """Tokens still to be put through the model before the next one can be sampled; 1 while decoding."""
        return len(self.tokens) - self.num_computed

    @property
    def num_output(self) -> int:
        """Tokens of the answer so far."""
        return len(self.tokens) - self.num_prompt


def rank(arrived: float, level: int, aging_seconds: float, arrival: int) -> tuple[float, int]:
    """The rank of what arrived at `arrived` seconds as number `arrival`.

    Waiting makes urgent: `aging_seconds` of it weigh as much as one level. So of two levels the lower one goes first
    when it has waited that much longer, and no stream of urgent requests starves it. The order of two never changes,
    since both age alike.
    """
    return arrived + level * aging_seconds, arrival
