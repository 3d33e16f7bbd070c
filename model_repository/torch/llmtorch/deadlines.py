"""Which requests must end by now."""

from __future__ import annotations

import heapq

from llmtorch.answer import Group

SLACK = 64


class Deadlines:
    """Groups with a deadline, the next one first. Those that ended before it are forgotten now and then."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Group]] = []
        self._live = 0

    def add(self, group: Group) -> None:
        """Watches a group, if its request has a deadline."""
        if group.request.deadline is not None:
            heapq.heappush(self._heap, (group.request.deadline, group.arrival, group))
            self._live += 1

    def forget(self, group: Group) -> None:
        """Counts a group as ended."""
        if group.request.deadline is None:
            return
        self._live -= 1
        if len(self._heap) > 2 * self._live + SLACK:
            self._heap = [entry for entry in self._heap if entry[2].unfinished]
            heapq.heapify(self._heap)

    def passed(self, now: float) -> bool:
        """Whether `overdue` would give anything, or clear away what ended."""
        return bool(self._heap) and self._heap[0][0] <= now

    def overdue(self, now: float) -> list[Group]:
        """Takes out the groups whose deadline has come and that have not ended."""
        found = []
        while self.passed(now):
            group = heapq.heappop(self._heap)[2]
            if group.unfinished:
                found.append(group)
        return found
