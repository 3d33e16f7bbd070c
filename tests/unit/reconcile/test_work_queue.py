"""The queue: no key twice at once, no wake-up lost, no storm after a fault, a clean end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from llmservice.reconcile.work_queue import Backoff, Key, WorkQueue

pytestmark = pytest.mark.unit

A: Key = ("default", "a")
B: Key = ("default", "b")


class SteppedClock:
    """Time that a test moves; waits end by their event or when time has come."""

    def __init__(self) -> None:
        self.elapsed = 0.0
        self._moved = asyncio.Condition()

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.elapsed)

    def monotonic(self) -> float:
        return self.elapsed

    async def wait(self, event: asyncio.Event, seconds: float | None) -> None:
        until = None if seconds is None else self.elapsed + seconds
        async with self._moved:
            waiter = asyncio.create_task(self._tell_of(event))
            await self._moved.wait_for(lambda: event.is_set() or (until is not None and self.elapsed >= until))
            waiter.cancel()

    async def advance(self, seconds: float) -> None:
        self.elapsed += seconds
        async with self._moved:
            self._moved.notify_all()
        await settle()

    async def _tell_of(self, event: asyncio.Event) -> None:
        await event.wait()
        async with self._moved:
            self._moved.notify_all()


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


class Passes:
    """Notes passes, and holds or fails them where told to."""

    def __init__(self) -> None:
        self.begun: list[Key] = []
        self.running: set[Key] = set()
        self.most = 0
        self.held: dict[Key, asyncio.Event] = {}
        self.failures: dict[Key, int] = {}
        self.again: timedelta | None = None

    async def __call__(self, key: Key) -> timedelta | None:
        assert key not in self.running, "two passes over one key"
        self.begun.append(key)
        self.running.add(key)
        self.most = max(self.most, len(self.running))
        try:
            if key in self.held:
                await self.held[key].wait()
            if self.failures.get(key, 0) > 0:
                self.failures[key] -= 1
                raise RuntimeError("planned")
            return self.again
        finally:
            self.running.discard(key)


@asynccontextmanager
async def working(
    passes: Callable[[Key], Awaitable[timedelta | None]],
    *,
    concurrency: int = 2,
    settle_seconds: float = 0.2,
    hold: float = 5.0,
) -> AsyncIterator[tuple[WorkQueue, SteppedClock]]:
    clock, stop = SteppedClock(), asyncio.Event()
    queue = WorkQueue(passes, clock, draw=lambda: 0.0, concurrency=concurrency, settle=settle_seconds, hold=hold)
    task = asyncio.create_task(queue.run(stop))
    await settle()
    yield queue, clock
    stop.set()
    await asyncio.wait_for(task, 60)


async def test_wake_ups_before_a_pass_are_one_pass() -> None:
    passes = Passes()
    async with working(passes) as (queue, _):
        for _ in range(5):
            queue.wake(A)
        await settle()
        assert passes.begun == [A]


async def test_wake_ups_during_a_pass_are_one_more_pass() -> None:
    passes = Passes()
    passes.held[A] = asyncio.Event()
    async with working(passes) as (queue, clock):
        queue.wake(A)
        await settle()
        for _ in range(5):
            queue.wake(A)
        passes.held.pop(A).set()
        await settle()
        await clock.advance(1)
        assert passes.begun == [A, A]


async def test_a_burst_is_spaced_out() -> None:
    passes = Passes()
    async with working(passes, settle_seconds=1.0) as (queue, clock):
        queue.wake(A)
        await settle()
        queue.wake(A)
        await settle()
        assert passes.begun == [A]
        await clock.advance(1.1)
        assert passes.begun == [A, A]


async def test_no_more_passes_at_once_than_allowed_and_none_is_forgotten() -> None:
    passes = Passes()
    keys = [("default", str(number)) for number in range(6)]
    passes.held = {key: asyncio.Event() for key in keys}
    async with working(passes, concurrency=2) as (queue, _):
        for key in keys:
            queue.wake(key)
        await settle()
        assert len(passes.running) == 2
        assert queue.depth == 4
        for key in keys:
            passes.held[key].set()
            await settle()
        assert sorted(passes.begun) == keys
        assert passes.most == 2


async def test_a_pass_may_ask_to_be_repeated_later() -> None:
    passes = Passes()
    passes.again = timedelta(seconds=30)
    async with working(passes) as (queue, clock):
        queue.wake(A)
        await settle()
        await clock.advance(29)
        assert passes.begun == [A]
        await clock.advance(2)
        assert passes.begun == [A, A]


async def test_a_fault_is_retried_later_and_later_and_success_forgives() -> None:
    passes = Passes()
    passes.failures[A] = 3
    async with working(passes) as (queue, clock):
        queue.wake(A)
        await settle()
        for wait in (0.5, 1.0, 2.0):
            count = len(passes.begun)
            await clock.advance(wait - 0.1)
            assert len(passes.begun) == count
            await clock.advance(0.2)
            assert len(passes.begun) == count + 1
        assert queue.retries == 3
        passes.failures[A] = 1
        await clock.advance(10)
        queue.wake(A)
        await settle()
        await clock.advance(0.6)
        assert len(passes.begun) == 6


async def test_events_do_not_turn_a_fault_into_a_storm_and_still_shorten_a_long_backoff() -> None:
    passes = Passes()
    passes.failures[A] = 8
    async with working(passes, hold=5.0) as (queue, clock):
        queue.wake(A)
        await settle()
        for _ in range(7):
            await clock.advance(64)
        count = len(passes.begun)
        await clock.advance(5.1)
        for _ in range(10):
            queue.wake(A)
            await settle()
        assert len(passes.begun) == count + 1


async def test_one_failing_key_does_not_hold_up_another() -> None:
    passes = Passes()
    passes.failures[A] = 100
    async with working(passes) as (queue, _):
        queue.wake(A)
        queue.wake(B)
        await settle()
        assert B in passes.begun


async def test_the_end_waits_for_what_runs_and_starts_nothing_new() -> None:
    passes, clock, stop = Passes(), SteppedClock(), asyncio.Event()
    passes.held[A] = asyncio.Event()
    queue = WorkQueue(passes, clock, concurrency=1)
    task = asyncio.create_task(queue.run(stop))
    queue.wake(A)
    queue.wake(B)
    await settle()
    stop.set()
    await settle()
    assert not task.done()
    assert queue.longest_running == 0.0
    passes.held[A].set()
    await asyncio.wait_for(task, 60)
    assert passes.begun == [A]


async def test_the_end_cancels_what_does_not_end() -> None:
    passes, clock, stop = Passes(), SteppedClock(), asyncio.Event()
    passes.held[A] = asyncio.Event()
    queue = WorkQueue(passes, clock)
    task = asyncio.create_task(queue.run(stop, grace=0.01))
    queue.wake(A)
    await settle()
    stop.set()
    await asyncio.wait_for(task, 60)
    assert passes.running == set()


async def test_passes_are_counted_with_their_time_and_outcome() -> None:
    seen: list[tuple[Key, bool]] = []
    passes, clock, stop = Passes(), SteppedClock(), asyncio.Event()
    passes.failures[B] = 1
    queue = WorkQueue(passes, clock, observe=lambda key, _, failed: seen.append((key, failed)))
    task = asyncio.create_task(queue.run(stop))
    queue.wake(A)
    queue.wake(B)
    await settle()
    stop.set()
    await task
    assert sorted(seen) == [(A, False), (B, True)]


def test_the_backoff_doubles_up_to_its_limit_and_jitter_only_shortens() -> None:
    backoff = Backoff(first=1.0, most=10.0, jitter=0.5)
    assert [backoff.seconds(n, 0.0) for n in (1, 2, 3, 4, 5, 90)] == [1, 2, 4, 8, 10, 10]
    assert 5.0 <= backoff.seconds(9, 0.999) < 10.0
