"""Batches that run to completion (`Static`, `Dynamic`), before an engine that only knows continuous batching."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field


@dataclass
class _Batch:
    size: int
    arrived: int = 0
    members: list[int] = field(default_factory=list)


class Batches:
    """Lets one batch into the engine at a time: the next when every member of the one inside has ended.

    Members are keys of requests. A batch whose members have not all arrived waits for them.
    """

    def __init__(self) -> None:
        self._waiting: deque[int] = deque()
        self._batches: dict[int, _Batch] = {}
        self._inside: int | None = None
        self._of: dict[int, int] = {}

    def arrive(self, batch: int, size: int, key: int | None) -> None:
        """One member came; `key` None is one that was refused and never goes in."""
        if batch not in self._batches:
            self._batches[batch] = _Batch(size)
            self._waiting.append(batch)
        entry = self._batches[batch]
        entry.arrived += 1
        if key is not None:
            entry.members.append(key)
            self._of[key] = batch

    def end(self, key: int) -> None:
        """A member ended, inside the engine or still before it. Requests outside of batches are ignored."""
        batch = self._of.pop(key, None)
        if batch is not None:
            self._batches[batch].members.remove(key)

    def next(self) -> list[int]:
        """Members of the batch that goes in now; none while another is inside or incomplete."""
        while True:
            if self._inside is not None:
                if self._batches[self._inside].members:
                    return []
                del self._batches[self._inside]
                self._inside = None
            if not self._waiting or self._batches[self._waiting[0]].arrived < self._batches[self._waiting[0]].size:
                return []
            self._inside = self._waiting.popleft()
            if self._batches[self._inside].members:
                return list(self._batches[self._inside].members)
