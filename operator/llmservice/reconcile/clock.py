"""Time as a parameter: nothing in the loop asks the host for it directly."""

from __future__ import annotations

import asyncio
import contextlib
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where the loop gets its time from."""

    def now(self) -> datetime:
        """The wall clock, in UTC: only for what people read."""

    def monotonic(self) -> float:
        """Seconds that never run backwards: for every interval."""

    async def wait(self, event: asyncio.Event, seconds: float | None) -> None:
        """Returns once `event` is set or `seconds` have passed; None waits for the event alone."""


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


def timestamp(moment: datetime) -> str:
    """`moment` as Kubernetes writes times: `2026-01-31T12:00:00Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_timestamp(text: str | None) -> datetime | None:
    """The time that `text` writes, with or without a fraction; None where there is none."""
    if not text:
        return None
    return datetime.fromisoformat(text)
