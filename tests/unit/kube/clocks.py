"""A clock that moves only when a test moves it."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, tzinfo=UTC)


class ManualClock:
    """Waits end in the order of their times while `advance` lets time pass. `pauses` are the seconds waited for."""

    def __init__(self) -> None:
        self.elapsed = 0.0
        self._order = itertools.count()
        self._waits: list[tuple[float, int, asyncio.Event]] = []
        self.pauses: list[float] = []

    def now(self) -> datetime:
        return START + timedelta(seconds=self.elapsed)

    def monotonic(self) -> float:
        return self.elapsed

    async def wait(self, event: asyncio.Event, seconds: float | None) -> None:
        assert seconds is not None
        self.pauses.append(seconds)
        heapq.heappush(self._waits, (self.elapsed + seconds, next(self._order), event))
        await event.wait()

    async def advance(self, seconds: float) -> None:
        until = self.elapsed + seconds
        await settle()
        while self._waits and self._waits[0][0] <= until:
            self.elapsed, _, event = heapq.heappop(self._waits)
            event.set()
            await settle()
        self.elapsed = until
        await settle()


class OtherMachine:
    """The clock of another machine: the same time passes, but it counts from elsewhere and its wall clock is wrong."""

    def __init__(self, clock: ManualClock, skew: timedelta) -> None:
        self._clock = clock
        self._skew = skew

    def now(self) -> datetime:
        return self._clock.now() + self._skew

    def monotonic(self) -> float:
        return self._clock.monotonic() + 1e6

    async def wait(self, event: asyncio.Event, seconds: float | None) -> None:
        await self._clock.wait(event, seconds)


async def settle() -> None:
    """Let every task run until it waits for something."""
    for _ in range(50):
        await asyncio.sleep(0)
