"""Brings requests from the line into engine instances: one by one as slots come free, or as batches to idle ones."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Final

from llmgate.gate_metrics import GateMetrics, Rejection
from llmgate.instances import Instances
from llmgate.levels import Levels
from llmgate.line import Line
from llmgate.link import EngineGoneError, Link
from llmgate.stream import nothing
from llmgate.waiting import Waiting
from llmserving.parameters import Mode
from llmserving.slots import Urgency

LOOK_SECONDS: Final = 0.1
"""A look for cancellation is a round trip to the server, so each stream is looked at this seldom."""
FRESH_SECONDS: Final = 0.02
"""A request younger than this is not looked at before it is admitted: it would cost its client the round trip."""


class Admission:
    """Empties the line as far as there are slots. Not thread-safe: the gate holds its lock.

    `delay` is how long a `Static` batch that is not full waits once an instance is idle, in seconds. `left` is called
    when a request that had a slot ended, with its tokens of prompt and answer.
    """

    def __init__(
        self,
        line: Line[Waiting],
        instances: Instances,
        levels: Levels,
        mode: Mode,
        max_sequences: int,
        delay: float,
        metrics: GateMetrics,
        clock: Callable[[], float],
        left: Callable[[Waiting, int, int], None],
    ) -> None:
        self._left = left
        self._line = line
        self._instances = instances
        self._levels = levels
        self._mode = mode
        self._max_sequences = max_sequences
        self._delay = delay
        self._metrics = metrics
        self._clock = clock
        self._keys = itertools.count(1)
        self._idle_since: dict[str, float] = {}

    def run(self) -> None:
        """Admits what can be admitted now."""
        links = self._instances.admitting()
        if self._mode.runs_batches:
            for link in links:
                self._fill_idle(link)
        else:
            self._fill_free(links)
        first = self._line.first()
        for link in links:
            link.announce(None if first is None else self._urgency(first))

    def refuse_expired(self) -> None:
        """Answers those that waited too long."""
        for one in self._line.expired(self._clock()):
            self._refuse_expired(one)

    def refuse_full(self, one: Waiting) -> None:
        """Answers one that came when as many as may were waiting; in Triton's words, which clients may know."""
        self._line.drop(one)
        self._metrics.rejected(Rejection.FULL, one.level)
        of = f" of priority level {one.level}" if self._levels.count > 1 else ""
        most = self._levels.limit(one.level).max_size
        one.stream.reject(f"Exceeds maximum queue size{of}: {most} requests wait; try again later")

    def refuse_all(self, message: str) -> None:
        """Answers everybody in the line."""
        for one in list(self._line):
            self._line.drop(one)
            self._metrics.rejected(Rejection.NO_ENGINE, one.level)
            one.stream.reject(message)

    def drop_left(self, one: Waiting) -> bool:
        """Drops a request whose client left, so that it never reaches the engine. Returns whether it did."""
        if not one.stream.client_left():
            return False
        self._line.drop(one)
        one.stream.cancel()
        return True

    def _fill_free(self, links: list[Link]) -> None:
        """Requests in their order, each to the least loaded instance that has a slot for it."""
        groups: dict[Link, list[tuple[int, Waiting]]] = {}
        while (one := self._next_wanted()) is not None:
            taken = self._take_slot(one, links)
            if taken is None:
                break
            link, slot = taken
            self._line.take(one)
            groups.setdefault(link, []).append((slot, one))
        for link, group in groups.items():
            self._send(link, group, batch=None)

    def _take_slot(self, one: Waiting, links: list[Link]) -> tuple[Link, int] | None:
        for link in sorted(links, key=lambda link: link.slots.held()):
            leave = 0
            if not self._line.owes_a_turn:
                leave = self._levels.slots_left_free(one.level, self._max_sequences, link.slots.count)
            taken = link.slots.take(link.number, 1, leave, self._urgency(one))
            if taken is not None:
                return link, taken[0]
        return None

    def _fill_idle(self, link: Link) -> None:
        """A batch for an instance that computes nothing: as many as wait and fit, in their order."""
        if link.slots.held():
            self._idle_since.pop(link.instance, None)
            return
        idle_since = self._idle_since.setdefault(link.instance, self._clock())
        most = min(self._max_sequences, link.slots.count)
        if self._mode is Mode.STATIC and len(self._line) < most and not self._overdue(idle_since):
            return
        batch: list[Waiting] = []
        while len(batch) < most and (one := self._next_wanted()) is not None:
            self._line.take(one)
            batch.append(one)
        if not batch:
            return
        # All the others stay free: nothing else may be in the instance beside a batch.
        slots = link.slots.take(link.number, len(batch), link.slots.count - len(batch), self._urgency(batch[0]))
        if slots is None:
            self._put_back(batch)
            return
        self._idle_since.pop(link.instance, None)
        self._send(link, list(zip(slots, batch, strict=True)), batch=next(self._keys))

    def _overdue(self, idle_since: float) -> bool:
        oldest = min((one.arrived for one in self._line), default=float("inf"))
        return self._clock() >= max(idle_since, oldest) + self._delay

    def _next_wanted(self) -> Waiting | None:
        """Whose turn it is, of those that are still wanted; the others are answered on the way."""
        while (one := self._line.first()) is not None:
            now = self._clock()
            if one.expires <= now:
                self._refuse_expired(one)
            elif self._is_fresh(one, now) or not self.drop_left(one):
                return one
        return None

    def _is_fresh(self, one: Waiting, now: float) -> bool:
        """Whether it is too young to be looked at. A batch is formed seldom, and a member too many costs all of it."""
        return not self._mode.runs_batches and now - one.arrived < FRESH_SECONDS

    def _refuse_expired(self, one: Waiting) -> None:
        self._line.drop(one)
        self._metrics.rejected(Rejection.TIMEOUT, one.level)
        one.stream.reject(
            f"Request timeout expired: it waited {self._clock() - one.arrived:.1f} s for a slot; try again later"
        )

    def _send(self, link: Link, group: list[tuple[int, Waiting]], batch: int | None) -> None:
        now = self._clock()
        admissions = []
        for slot, one in group:
            one.stream.next_look = now + LOOK_SECONDS
            one.stream.when_ended = functools.partial(self._left, one)
            admissions.append((slot, one.request(next(self._keys), batch, len(group)), one.stream))
        try:
            link.admit(admissions)
        except EngineGoneError:  # its slots are gone with it
            self._put_back([one for _, one in group])
            return
        self._metrics.formed(len(group))
        for _, one in group:
            one.stream.admitted()

    def _put_back(self, group: list[Waiting]) -> None:
        for one in reversed(group):
            one.stream.when_ended = nothing
            self._line.put_back(one)

    def _urgency(self, one: Waiting) -> Urgency:
        """A turn that is owed to a lower level counts as one of the highest."""
        return (1 if self._line.owes_a_turn else one.level, one.arrived)
