"""Sequences for a scheduler, what the engine does with its chunks, and what must hold after every step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from llmtorch.block_manager import BlockManager
from llmtorch.scheduler import Chunk, Limits, Scheduler
from llmtorch.sequence import Sequence, rank

BLOCK = 4
AGING = 10.0


def sequence(
    key: int,
    prompt: int | list[int],
    batch: int | None = None,
    level: int = 0,
    arrived: float = 0.0,
) -> Sequence:
    """A prompt of so many tokens that no other has, or of these tokens."""
    tokens = [key * 1000 + at for at in range(prompt)] if isinstance(prompt, int) else list(prompt)
    return Sequence(key, tokens, len(tokens), rank(arrived, level, AGING, key), level, batch)


@dataclass
class World:
    """A scheduler with what the engine does around it.

    `contents` says of every place in the cache which tokens, from the first of the sequence on, led there when it was
    written: so it is seen when a sequence reads what another has written over. Such tokens have a number, `paths`.
    """

    scheduler: Scheduler
    answers: dict[int, int] = field(default_factory=dict)
    contents: dict[tuple[int, int], int] = field(default_factory=dict)
    paths: dict[tuple[int, int], int] = field(default_factory=dict)
    ended: list[int] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        *,
        blocks: int = 1000,
        max_sequences: int = 4,
        token_budget: int = 16,
        prefix_caching: bool = True,
        max_prefills: int | None = None,
        mixed_prefill_tokens: int | None = None,
    ) -> World:
        limits = Limits(max_sequences, token_budget, max_prefills, mixed_prefill_tokens)
        return cls(Scheduler(BlockManager(blocks, BLOCK, prefix_caching=prefix_caching), limits))

    def add(self, one: Sequence, answer: int = 1, batch_size: int = 1) -> None:
        self.answers[one.key] = answer
        self.scheduler.add(one, batch_size)

    def step(self) -> dict[int, int]:
        """Schedules, checks, computes; the tokens of each sequence by key."""
        chunks = self.scheduler.schedule()
        self.check(chunks)
        self.compute(chunks)
        return {chunk.sequence.key: chunk.count for chunk in chunks}

    def compute(self, chunks: list[Chunk]) -> None:
        for chunk in chunks:
            one = chunk.sequence
            path = -1
            for at in range(one.num_computed + chunk.count):
                path = self.paths.setdefault((path, one.tokens[at]), len(self.paths))
                if at < one.num_computed:
                    assert self.contents[_place(one, at)] == path, "another's keys and values"
                else:
                    self.contents[_place(one, at)] = path
        giving = [chunk.sequence for chunk in chunks if chunk.gives_token]
        self.scheduler.advance(chunks)
        for one in giving:
            one.tokens.append(one.key * 1000 + len(one.tokens))
            if one.num_output == self.answers[one.key]:
                self.scheduler.remove(one)
                self.ended.append(one.key)

    def check(self, chunks: list[Chunk]) -> None:
        scheduler, limits = self.scheduler, self.scheduler.limits
        check_blocks(scheduler.blocks, [one.blocks for one in [*scheduler.running, *scheduler.waiting]])
        assert [one.rank for one in scheduler.running] == sorted(one.rank for one in scheduler.running)
        assert [one.rank for one in scheduler.waiting] == sorted(one.rank for one in scheduler.waiting)
        assert sum(chunk.count for chunk in chunks) <= limits.token_budget
        assert len(scheduler.running) <= limits.max_sequences
        assert len({chunk.sequence.key for chunk in chunks}) == len(chunks)
        assert all(chunk.sequence in scheduler.running for chunk in chunks)
        for chunk in chunks:
            assert 1 <= chunk.count <= chunk.sequence.num_pending
            assert len(chunk.sequence.blocks) * BLOCK >= chunk.sequence.num_computed + chunk.count
        assert all(not one.blocks and one.num_computed == 0 for one in scheduler.waiting)
        assert len({one.batch for one in scheduler.running}) <= 1
        scheduled = {chunk.sequence.key for chunk in chunks}
        decoding = [one for one in scheduler.running if one.num_output and one.num_pending == 1]
        assert all(one.key in scheduled for one in decoding), "an answer stalls"


def check_blocks(blocks: BlockManager, tables: Iterable[list[int]]) -> None:
    """No block is lost, none has more owners than it counts, and none that has one is free."""
    owners = Counter(block for table in tables for block in table)
    assert blocks._references == [owners[block] for block in range(blocks.num_blocks)]
    assert sorted([*blocks._free, *blocks._idle, *owners]) == list(range(blocks.num_blocks))
    assert blocks.num_free == blocks.num_blocks - len(owners)
    assert set(blocks._by_name.values()) == {at for at, name in enumerate(blocks._names) if name is not None}


def _place(one: Sequence, at: int) -> tuple[int, int]:
    return one.blocks[at // BLOCK], at % BLOCK
