"""Time as a parameter: nothing that talks to the API server asks the host for it directly."""

from __future__ import annotations

import asyncio
import contextlib
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where time comes from."""

    def now(self) -> datetime:
        """The wall clock, in UTC: only for what people read."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run backwards: for every interval."""
        ...

    async def wait(self, event: asyncio.Event, seconds: float | None) -> None:
        """Returns once `event` is set or `seconds` have passed; None waits for the event alone."""
        ...


class SystemClock:
    """The host's clock."""

    def now(self) -> datetime:
        """The wall clock in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds of the host's monotonic clock."""
        return time.monotonic()

    async def wait(self, event: asyncio.Event, seconds: float | None) -> None:
        """Waits for the event or the timeout, whichever comes first."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(event.wait(), seconds)


async def sleep(clock: Clock, seconds: float) -> None:
    """Let `seconds` of a clock pass."""
    await clock.wait(asyncio.Event(), seconds)


def timestamp(moment: datetime) -> str:
    """A time as Kubernetes writes it, to the second: `2026-01-31T12:00:00Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(moment: datetime) -> str:
    """A time as a Lease has it, to the microsecond."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
