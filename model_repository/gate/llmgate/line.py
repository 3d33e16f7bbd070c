"""The line of requests that wait for a slot: by level, in a level by clients in turn, of one client by arrival.

Pure: no clock, no thread, no Triton.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Iterator
from typing import Final, Generic, Protocol, TypeVar

from llmgate.fairness import Shares, work
from llmgate.levels import Levels

PATIENCE_TURNS: Final = 16
"""After so many turns of higher levels in a row the longest waiting lower level gets one, so that none starves."""


class Request(Protocol):
    """What the line needs to know of a request."""

    @property
    def level(self) -> int:
        """1 is the highest."""

    @property
    def client(self) -> str:
        """Who sent it; empty when it does not say."""

    @property
    def arrived(self) -> float:
        """When it came, in seconds."""

    @property
    def expires(self) -> float:
        """When it has waited too long; infinite for never."""

    @property
    def expected_work(self) -> float:
        """What it may cost at most, see `fairness.work`."""


R = TypeVar("R", bound=Request)


class Line(Generic[R]):
    """Requests of all levels."""

    def __init__(self, levels: Levels) -> None:
        self._levels = levels
        self._queues: dict[int, dict[str, deque[R]]] = {level: {} for level in levels.known()}
        self._shares = {level: Shares() for level in levels.known()}
        self._sizes = dict.fromkeys(levels.known(), 0)
        self._members: set[R] = set()
        self._expiries: list[tuple[float, int, R]] = []
        self._numbers = itertools.count()
        self._passed_over = 0

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, request: R) -> bool:
        return request in self._members

    def __iter__(self) -> Iterator[R]:
        for queues in self._queues.values():
            for queue in queues.values():
                yield from queue

    def size(self, level: int) -> int:
        """Requests of `level` that wait."""
        return self._sizes[level]

    def overfull(self, level: int) -> bool:
        """Whether more requests of `level` wait than may."""
        most = self._levels.limit(level).max_size
        return most is not None and self._sizes[level] > most

    def add(self, request: R) -> None:
        """Puts a request at its client's end of the line."""
        queues = self._queues[request.level]
        self._shares[request.level].came(request.client, queues.keys())
        queues.setdefault(request.client, deque()).append(request)
        self._enter(request)

    def first(self) -> R | None:
        """Whose turn it is: of the highest level that waits, or of a lower one that was passed over for too long."""
        waiting = [level for level in self._levels.known() if self._sizes[level]]
        if not waiting:
            return None
        if self._passed_over >= PATIENCE_TURNS and len(waiting) > 1:
            return min((self._next_of(level) for level in waiting[1:]), key=lambda one: one.arrived)
        return self._next_of(waiting[0])

    @property
    def owes_a_turn(self) -> bool:
        """Whether the turn is a lower level's although a higher one waits: it then may take what is kept free, too."""
        return self._passed_over >= PATIENCE_TURNS and sum(1 for size in self._sizes.values() if size) > 1

    def take(self, request: R) -> None:
        """The request has its turn: it leaves the line and is charged what it may cost."""
        lower_wait = any(self._sizes[level] for level in self._levels.known() if level > request.level)
        higher_wait = any(self._sizes[level] for level in self._levels.known() if level < request.level)
        self._passed_over = 0 if higher_wait or not lower_wait else self._passed_over + 1
        self._shares[request.level].turn(request.client, request.expected_work)
        self._remove(request)

    def put_back(self, request: R) -> None:
        """The request had its turn for nothing, since the engine had gone: it is the first of its client again."""
        self._shares[request.level].charge(request.client, -request.expected_work)
        self._queues[request.level].setdefault(request.client, deque()).appendleft(request)
        self._enter(request)

    def drop(self, request: R) -> None:
        """The request leaves the line without a turn."""
        self._remove(request)
        self._shares[request.level].went(request.client)

    def ended(self, request: R, prompt_tokens: int, output_tokens: int) -> None:
        """A request that had its turn ended: its client is charged what it did cost."""
        shares = self._shares[request.level]
        shares.charge(request.client, work(prompt_tokens, output_tokens) - request.expected_work)
        shares.went(request.client)

    def expired(self, now: float) -> list[R]:
        """Requests that waited too long, each told once; they stay in the line until they are dropped."""
        late: dict[R, None] = {}
        while self._expiries and self._expiries[0][0] <= now:
            _, _, request = heapq.heappop(self._expiries)
            if request in self._members:
                late[request] = None  # put back, it stands in the heap twice
        return list(late)

    def _enter(self, request: R) -> None:
        self._members.add(request)
        self._sizes[request.level] += 1
        if request.expires < math.inf:
            heapq.heappush(self._expiries, (request.expires, next(self._numbers), request))

    def _next_of(self, level: int) -> R:
        queues = self._queues[level]
        return queues[self._shares[level].least_served(queues)][0]

    def _remove(self, request: R) -> None:
        queues = self._queues[request.level]
        queue = queues[request.client]
        queue.remove(request)
        if not queue:
            del queues[request.client]
        self._members.discard(request)
        self._sizes[request.level] -= 1
