"""Which sequences run in the next step, and how many of their tokens. Pure: no tensors, no clock.

Iteration-level scheduling (Orca, Yu et al. 2022): sequences join and leave between steps. A step has a budget of
tokens: first one for each sequence that decodes, then pieces of prompts (chunked prefill, Sarathi-Serve, Agrawal et al.
2024), so a long prompt never stalls the answers that are under way.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from collections.abc import Sequence as Items
from dataclasses import dataclass
from itertools import islice

from llmtorch.batches import Batches
from llmtorch.block_manager import BlockManager, extend_names
from llmtorch.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Chunk:
    """The next `count` tokens of a sequence, from its `num_computed` on."""

    sequence: Sequence
    count: int

    @property
    def gives_token(self) -> bool:
        """Whether all tokens of the sequence are then computed, so that the next one can be sampled."""
        return self.count == self.sequence.num_pending


@dataclass
class Limits:
    """What one step may hold.

    `max_sequences` run at once, `max_prefills` of them with several tokens in one step. A step has at most
    `token_budget` tokens; `mixed_prefill_tokens` of them, where it is set, are those of prompts when others decode
    beside them. So are `paced_prefill_tokens`, which may change between steps; where prompts outnumber what decodes, in
    that proportion more, so that a few answers stall once and many begin together.
    """

    max_sequences: int
    token_budget: int
    max_prefills: int | None = None
    mixed_prefill_tokens: int | None = None
    paced_prefill_tokens: int | None = None

    def prefill_tokens(self, num_decodes: int, num_prompts: int) -> int:
        """Tokens of prompts beside `num_decodes` sequences that decode, where `num_prompts` are to be computed."""
        left = self.token_budget - num_decodes
        if num_decodes and self.mixed_prefill_tokens is not None:
            left = min(left, self.mixed_prefill_tokens)
        if num_decodes and self.paced_prefill_tokens is not None:
            left = min(left, self.paced_prefill_tokens * max(num_prompts, num_decodes) // num_decodes)
        return left


class Scheduler:
    """Waiting line and running set, both in the order of rank, and the rules between them.

    In `Continuous` all sequences have batch None. Members of a batch are admitted once all have arrived and nothing
    runs; while any of them lives nothing else joins. The waiting line is strict: what does not fit holds up what is
    behind it, or many small ones would starve a large one.
    """

    def __init__(self, blocks: BlockManager, limits: Limits) -> None:
        self.blocks = blocks
        self.limits = limits
        self.running: list[Sequence] = []
        self.waiting: list[Sequence] = []
        self.num_preemptions = 0
        self.num_prefix_queries = 0
        self.num_prefix_hits = 0
        self._batches = Batches()

    def expect(self, batch: int, size: int) -> None:
        """Counts one member of a batch as arrived that is refused and will never be added."""
        self._batches.arrive(batch, size)

    def add(self, sequence: Sequence, batch_size: int = 1) -> None:
        """Puts the first sequence of a request into the waiting line."""
        self.join(sequence, batch_size)
        if sequence.batch is not None:
            self._batches.arrive(sequence.batch, batch_size)

    def join(self, sequence: Sequence, batch_size: int = 1) -> None:
        """Puts a further sequence of a request that was added into the waiting line."""
        if self.blocks.prefix_caching:
            extend_names(sequence.hashes, sequence.tokens, self.blocks.block_size)
        _insert(self.waiting, sequence)
        if sequence.batch is not None:
            self._batches.join(sequence.batch, batch_size)

    def remove(self, sequence: Sequence) -> None:
        """Takes out a sequence that has ended, wherever it is, and frees its blocks."""
        if not _discard(self.running, sequence):
            _discard(self.waiting, sequence)
        self.blocks.release(sequence.blocks)
        if sequence.batch is not None:
            self._batches.leave(sequence.batch)

    def has_work(self) -> bool:
        """Whether `schedule` would give anything: something runs or may be admitted."""
        return bool(self.running) or self._next_admissible() is not None

    def schedule(self) -> list[Chunk]:
        """The chunks of the next step, those that decode first. Their blocks are allocated."""
        step = _Step(self.limits)
        preempted = self.num_preemptions
        prefills = self._decode(step)
        free_seats = self.limits.max_sequences - len(self.running)
        step.num_prompts = len(prefills) + min(len(self.waiting), free_seats)
        for sequence in prefills:
            count = min(sequence.num_pending, step.room())
            if count <= 0:
                break
            # Without blocks it was preempted for one before it.
            if sequence.blocks and self._make_room(sequence, count, step):
                step.prefills.append(Chunk(sequence, count))
        # What has just given its blocks away must not come back in the same step.
        if self.num_preemptions == preempted:
            self._admit(step)
        return step.decodes + step.prefills

    def advance(self, chunks: Items[Chunk]) -> None:
        """Counts the chunks as computed; the blocks they filled may now be used for the same tokens again."""
        size = self.blocks.block_size
        for chunk in chunks:
            sequence = chunk.sequence
            full = sequence.num_computed // size
            sequence.num_computed += chunk.count
            if self.blocks.prefix_caching and sequence.num_computed // size > full:
                extend_names(sequence.hashes, sequence.tokens, size)
                for index in range(full, sequence.num_computed // size):
                    self.blocks.keep(sequence.blocks[index], sequence.hashes[index])

    def _decode(self, step: _Step) -> list[Sequence]:
        """Adds those that decode; returns those that do not."""
        size = self.blocks.block_size
        prefills: list[Sequence] = []
        at = 0
        while at < len(self.running):  # who is preempted stands at the end
            sequence = self.running[at]
            at += 1
            computed = sequence.num_computed
            if len(sequence.tokens) - computed > 1:
                prefills.append(sequence)
            elif computed < len(sequence.blocks) * size or self._make_room(sequence, 1, step):
                step.decodes.append(Chunk(sequence, 1))
        return prefills

    def _make_room(self, sequence: Sequence, count: int, step: _Step) -> bool:
        """Allocates blocks for the chunk, preempting the last in rank; False when that was the sequence itself."""
        while not self.blocks.grow(sequence.blocks, sequence.num_computed + count):
            last = self.running[-1]
            self._preempt(last, step)
            if last is sequence:
                return False
        return True

    def _preempt(self, sequence: Sequence, step: _Step) -> None:
        """Back into the waiting line; its tokens stay, and what is no longer cached of them is computed again."""
        _discard(self.running, sequence)
        step.drop(sequence)
        self.blocks.release(sequence.blocks)
        sequence.num_computed = 0
        _insert(self.waiting, sequence)
        self.num_preemptions += 1

    def _admit(self, step: _Step) -> None:
        while (room := step.room()) > 0:
            sequence = self._next_admissible()
            if sequence is None or not self._place(sequence, room, step):
                return
            _discard(self.waiting, sequence)
            _insert(self.running, sequence)
            self._batches.running = sequence.batch
            step.prefills.append(Chunk(sequence, min(sequence.num_pending, room)))

    def _place(self, sequence: Sequence, room: int, step: _Step) -> bool:
        """Finds a seat and blocks for a sequence that waits, with those of less urgent ones where that is enough."""
        givers = self._givers(sequence)
        if len(self.running) >= self.limits.max_sequences and not givers:
            return False
        reused = self.blocks.reuse(sequence.blocks, self._reusable(sequence)) * self.blocks.block_size
        tokens = reused + min(len(sequence.tokens) - reused, room)
        missing = -(-tokens // self.blocks.block_size) - len(sequence.blocks)
        if missing <= self.blocks.num_free + sum(len(giver.blocks) for giver in givers):
            while len(self.running) >= self.limits.max_sequences or missing > self.blocks.num_free:
                if not givers:
                    break  # they shared what they gave
                self._preempt(givers.pop(), step)
            else:
                self.blocks.grow(sequence.blocks, tokens)
                sequence.num_computed = reused
                self._count_reuse(len(sequence.tokens), reused)
                return True
        self.blocks.release(sequence.blocks)
        return False

    def _givers(self, sequence: Sequence) -> list[Sequence]:
        """Those that run and give their place to this one, the first to do so last."""
        return [one for one in self.running if one.level > sequence.level and one.rank > sequence.rank]

    def _reusable(self, sequence: Sequence) -> Iterator[bytes]:
        """Names of the blocks it may find in the cache: at least one token must be computed, to sample the next."""
        return islice(sequence.hashes, (len(sequence.tokens) - 1) // self.blocks.block_size)

    def _count_reuse(self, tokens: int, reused: int) -> None:
        if self.blocks.prefix_caching:
            self.num_prefix_queries += tokens
            self.num_prefix_hits += reused

    def _next_admissible(self) -> Sequence | None:
        if not self.running and self._batches.running is None:
            return next(
                (one for one in self.waiting if one.batch is None or self._batches.is_complete(one.batch)), None
            )
        return next((one for one in self.waiting if one.batch == self._batches.running), None)


class _Step:
    """The chunks of the step that is being put together; `num_prompts` are begun or may be."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.num_prompts = 0
        self.decodes: list[Chunk] = []
        self.prefills: list[Chunk] = []

    def room(self) -> int:
        """How many tokens the next prompt may bring."""
        if self._limits.max_prefills is not None and len(self.prefills) >= self._limits.max_prefills:
            return 0
        most = self._limits.prefill_tokens(len(self.decodes), self.num_prompts)
        return most - sum(chunk.count for chunk in self.prefills)

    def drop(self, sequence: Sequence) -> None:
        """Takes the chunk of a sequence out."""
        self.decodes = [chunk for chunk in self.decodes if chunk.sequence is not sequence]
        self.prefills = [chunk for chunk in self.prefills if chunk.sequence is not sequence]


def _rank(sequence: Sequence) -> tuple[float, int]:
    return sequence.rank


def _insert(line: list[Sequence], sequence: Sequence) -> None:
    insort(line, sequence, key=_rank)


def _discard(line: list[Sequence], sequence: Sequence) -> bool:
    """Takes a sequence out of a line in the order of rank; whether it was there."""
    at = bisect_left(line, sequence.rank, key=_rank)
    if at == len(line) or line[at] is not sequence:
        return False
    del line[at]
    return True
