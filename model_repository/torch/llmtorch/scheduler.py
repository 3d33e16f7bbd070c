"""Which sequences run in the next step, and how many of their tokens. Pure: no tensors, no clock.

Iteration-level scheduling: sequences join and leave between steps. A step has a budget of tokens: first one for each
sequence that decodes, then pieces of prompts, so a long prompt never stalls the answers that are under way.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from llmtorch.block_manager import BlockManager
from llmtorch.sequence import Sequence


@dataclass(frozen=True)
class Chunk:
    """The next `count` tokens of a sequence, from its `num_computed` on."""

    sequence: Sequence
    count: int

    @property
    def gives_token(self) -> bool:
        """Whether all tokens of the sequence are then computed, so that the next one can be sampled."""
        return self.count == self.sequence.num_pending


@dataclass
class _Batch:
    """A batch that runs to completion: how many of its members have arrived, and how many are still to be answered."""

    size: int
    arrived: int = 0
    live: int = 0


class Scheduler:
    """Waiting line, running set, and the rules between them.

    In `Continuous` all sequences have batch None and are admitted in order of arrival. Members of a batch are admitted
    once all have arrived and nothing runs; while any of them lives nothing else joins.
    """

    def __init__(self, blocks: BlockManager, max_sequences: int, token_budget: int) -> None:
        self.blocks = blocks
        self.running: list[Sequence] = []
        self.waiting: deque[Sequence] = deque()
        self.num_preemptions = 0
        self._max_sequences = max_sequences
        self._token_budget = token_budget
        self._batches: dict[int, _Batch] = {}
        self._started: int | None = None  # the batch that runs until none of its members is left

    def expect(self, batch: int, size: int) -> None:
        """Counts one member of a batch as arrived, also one that is refused and will never be added."""
        entry = self._batches.setdefault(batch, _Batch(size))
        entry.arrived += 1
        self._forget(batch)

    def add(self, sequence: Sequence, batch_size: int = 1) -> None:
        """Puts a sequence at the end of the waiting line."""
        self.waiting.append(sequence)
        if sequence.batch is not None:
            self._batches.setdefault(sequence.batch, _Batch(batch_size)).live += 1
            self.expect(sequence.batch, batch_size)

    def remove(self, sequence: Sequence) -> None:
        """Takes out a sequence that has ended, wherever it is, and frees its blocks."""
        if sequence in self.running:
            self.running.remove(sequence)
        else:
            self.waiting.remove(sequence)
        self.blocks.release(sequence.blocks)
        if sequence.batch is not None:
            self._batches[sequence.batch].live -= 1
            self._forget(sequence.batch)

    def has_work(self) -> bool:
        """Whether `schedule` would give anything: something runs or may be admitted."""
        return bool(self.running) or self._next_admissible() is not None

    def schedule(self) -> list[Chunk]:
        """The chunks of the next step, those that decode first. Their blocks are allocated."""
        chunks: list[Chunk] = []
        budget = self._token_budget
        preempted = self.num_preemptions
        for sequence in sorted(self.running, key=lambda s: (s.num_pending > 1, s.arrival)):
            if sequence not in self.running:
                continue  # preempted for one before it
            count = min(sequence.num_pending, budget)
            if count == 0 or not self._make_room(sequence, count, chunks):
                continue
            budget = self._token_budget - sum(chunk.count for chunk in chunks) - count
            chunks.append(Chunk(sequence, count))
        # What has just given its blocks away must not come back in the same step.
        if self.num_preemptions == preempted:
            self._admit(chunks, budget)
        return chunks

    def _make_room(self, sequence: Sequence, count: int, chunks: list[Chunk]) -> bool:
        """Allocates blocks for the chunk, preempting the newest sequences; False when it was itself the newest."""
        while not self.blocks.grow(sequence.blocks, sequence.num_computed + count):
            newest = max(self.running, key=lambda s: s.arrival)
            self._preempt(newest)
            chunks[:] = [chunk for chunk in chunks if chunk.sequence is not newest]
            if newest is sequence:
                return False
        return True

    def _preempt(self, sequence: Sequence) -> None:
        """Back to the head of the waiting line; its tokens stay and are computed again."""
        self.running.remove(sequence)
        self.blocks.release(sequence.blocks)
        sequence.num_computed = 0
        self.waiting.appendleft(sequence)
        self.num_preemptions += 1

    def _admit(self, chunks: list[Chunk], budget: int) -> None:
        while budget > 0 and len(self.running) < self._max_sequences:
            sequence = self._next_admissible()
            if sequence is None:
                return
            count = min(sequence.num_pending, budget)
            if not self.blocks.grow(sequence.blocks, count):
                return
            self.waiting.remove(sequence)
            self.running.append(sequence)
            self._started = sequence.batch
            chunks.append(Chunk(sequence, count))
            budget -= count

    def _next_admissible(self) -> Sequence | None:
        if self.running or self._started is not None:
            return next((s for s in self.waiting if s.batch == self._started), None)
        return next((s for s in self.waiting if s.batch is None or self._is_complete(s.batch)), None)

    def _is_complete(self, batch: int) -> bool:
        return self._batches[batch].arrived >= self._batches[batch].size

    def _forget(self, batch: int) -> None:
        if self._batches[batch].live == 0 and self._is_complete(batch):
            del self._batches[batch]
            if self._started == batch:
                self._started = None
