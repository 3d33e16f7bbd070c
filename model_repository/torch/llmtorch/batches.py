"""Batches that run to completion (`Static`, `Dynamic`): which may begin, and when the one that runs is done."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class _Batch:
    """How many requests a batch has, how many of them have arrived, and how many sequences are still to be answered."""

    size: int
    arrived: int = 0
    live: int = 0


class Batches:
    """A batch begins when all its requests have arrived and none runs; it ends with its last sequence."""

    def __init__(self) -> None:
        self.running: int | None = None
        self._batches: dict[int, _Batch] = {}

    def __len__(self) -> int:
        return len(self._batches)

    def arrive(self, batch: int, size: int) -> None:
        """Counts one request of a batch of `size` as arrived, also one that is refused and has no sequence."""
        self._batches.setdefault(batch, _Batch(size)).arrived += 1
        self._forget(batch)

    def join(self, batch: int, size: int) -> None:
        """Counts one sequence that the batch waits for."""
        self._batches.setdefault(batch, _Batch(size)).live += 1

    def leave(self, batch: int) -> None:
        """Counts one sequence as ended."""
        self._batches[batch].live -= 1
        self._forget(batch)

    def is_complete(self, batch: int) -> bool:
        """Whether all its requests have arrived."""
        return self._batches[batch].arrived >= self._batches[batch].size

    def _forget(self, batch: int) -> None:
        if self._batches[batch].live == 0 and self.is_complete(batch):
            del self._batches[batch]
            if self.running == batch:
                self.running = None
