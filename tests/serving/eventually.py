"""Waits for what will be so, with a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

POLL_SECONDS = 0.02
PATIENCE_S = 60.0
"""For what takes moments on a quiet machine; a busy one must not fail a test, and one that passes waits no longer."""


async def eventually(condition: Callable[[], bool], within: float, what: str) -> float:
    """Seconds until `condition` held. Fails, saying `what` was waited for, when that takes longer than `within`."""
    started = time.monotonic()
    while not condition():
        waited = time.monotonic() - started
        assert waited < within, f"{what}: not within {within:g} s"
        await asyncio.sleep(POLL_SECONDS)
    return time.monotonic() - started


async def eventually_async(condition: Callable[[], Awaitable[bool]], within: float, what: str) -> float:
    """Like `eventually`, for a condition that must be awaited."""
    started = time.monotonic()
    while not await condition():
        waited = time.monotonic() - started
        assert waited < within, f"{what}: not within {within:g} s"
        await asyncio.sleep(POLL_SECONDS)
    return time.monotonic() - started
