"""The keyed work queue that drives the loop.

A key stands for "look at this service again". Events only ever add keys, so an event that is lost, doubled or late
costs at most time, never correctness. Per key one pass runs at a time; a wake-up that arrives during a pass gives
exactly one more; a pass that fails is repeated with exponential backoff.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

from llmservice.kube.clock import Clock

Key = tuple[str, str]
"""(namespace, name) of a service."""

Pass = Callable[[Key], Awaitable[timedelta | None]]
"""One pass of the loop. Answers when to look again without being woken; None: never."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Backoff:
    """The wait after the n-th failure in a row: `first` times 2^(n-1), at most `most`, less up to `jitter` of it."""

    first: float = 0.5
    most: float = 300.0
    jitter: float = 0.2

    def seconds(self, failures: int, draw: float) -> float:
        """The wait after `failures` ≥ 1 failures; `draw` is uniform in [0, 1)."""
        full = min(self.most, self.first * 2.0 ** min(failures - 1, 30))
        return full * (1 - self.jitter * draw)


class WorkQueue:
    """Runs `reconcile` for the keys it is woken with, at most `concurrency` at once.

    `settle` is the least time in seconds between two passes over one key: a burst of pod events becomes one pass.
    After a failure that time grows with the backoff up to `hold`, so events cannot turn a fault into a storm, and an
    edited spec is still looked at soon. Errors of the types `expected` are told in one line, others with their origin.
    """

    def __init__(
        self,
        reconcile: Pass,
        clock: Clock,
        *,
        concurrency: int = 4,
        settle: float = 0.2,
        hold: float = 5.0,
        backoff: Backoff | None = None,
        draw: Callable[[], float] = random.random,
        observe: Callable[[Key, float, bool], None] | None = None,
        expected: tuple[type[Exception], ...] = (),
    ) -> None:
        self._reconcile = reconcile
        self._clock = clock
        self._concurrency = concurrency
        self._settle = settle
        self._hold = hold
        self._backoff = backoff or Backoff()
        self._draw = draw
        self._observe = observe
        self._expected = expected
        self._due: dict[Key, float] = {}
        self._running: dict[Key, float] = {}
        self._woken_while_running: set[Key] = set()
        self._not_before: dict[Key, float] = {}
        self._failures: dict[Key, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._stopping = False
        self.retries = 0

    def wake(self, key: Key, after: float = 0.0) -> None:
        """Asks for a pass over `key` in `after` seconds, or sooner where one is due sooner already."""
        if key in self._running and after == 0.0:
            self._woken_while_running.add(key)
            return
        due = max(self._clock.monotonic() + after, self._not_before.get(key, float("-inf")))
        if due < self._due.get(key, float("inf")):
            self._due[key] = due
            self._changed.set()

    @property
    def depth(self) -> int:
        """Keys whose pass is due and has not begun."""
        now = self._clock.monotonic()
        return sum(1 for due in self._due.values() if due <= now)

    @property
    def longest_running(self) -> float:
        """Seconds since the oldest pass that still runs began; 0 where none runs."""
        return max((self._clock.monotonic() - begun for begun in self._running.values()), default=0.0)

    async def run(self, stop: asyncio.Event, grace: float = 20.0) -> None:
        """Works until `stop` is set, then lets running passes finish for `grace` seconds and cancels the rest."""
        stopper = asyncio.create_task(self._announce(stop))
        try:
            while not stop.is_set():
                self._changed.clear()
                await self._clock.wait(self._changed, self._start_what_is_due())
        finally:
            self._stopping = True
            stopper.cancel()
            await self._finish(grace)

    async def _announce(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._changed.set()

    def _start_what_is_due(self) -> float | None:
        """Starts passes while there is room; answers the seconds until the next one is due."""
        now = self._clock.monotonic()
        self._not_before = {key: moment for key, moment in self._not_before.items() if moment > now}
        for key, due in sorted(self._due.items(), key=lambda item: item[1]):
            if len(self._running) >= self._concurrency:
                return None  # the end of a running pass sets the event
            if key in self._running:
                continue
            if due > now:
                return due - now
            del self._due[key]
            self._running[key] = now
            task = asyncio.create_task(self._pass(key), name=f"reconcile {key[0]}/{key[1]}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return None

    async def _pass(self, key: Key) -> None:
        begun = self._clock.monotonic()
        again: float | None = None
        failed = False
        try:
            requeue = await self._reconcile(key)
            self._failures.pop(key, None)
            again = requeue.total_seconds() if requeue is not None else None
        except Exception as error:  # the queue outlives any fault of a pass
            failed = True
            again = self._after_failure(key)
            level = logging.WARNING if isinstance(error, self._expected) else logging.ERROR
            log.log(
                level,
                "pass failed, next try in %.1f s: %s",
                again,
                error,
                extra={"service": f"{key[0]}/{key[1]}"},
                exc_info=level == logging.ERROR,
            )
        finally:
            self._end(key, begun, again, failed=failed)

    def _end(self, key: Key, begun: float, again: float | None, *, failed: bool) -> None:
        """Books the end of a pass and plans the next one, where one is wanted."""
        now = self._clock.monotonic()
        self._running.pop(key, None)
        self._not_before[key] = now + (min(again or 0.0, self._hold) if failed else self._settle)
        woken = key in self._woken_while_running
        self._woken_while_running.discard(key)
        if not self._stopping:
            if again is not None:
                self.wake(key, again)
            if woken:
                self.wake(key)
        self._changed.set()
        if self._observe is not None:
            self._observe(key, now - begun, failed)

    def _after_failure(self, key: Key) -> float:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self.retries += 1
        return self._backoff.seconds(failures, self._draw())

    async def _finish(self, grace: float) -> None:
        if not self._tasks:
            return
        _, late = await asyncio.wait(self._tasks, timeout=grace)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)
