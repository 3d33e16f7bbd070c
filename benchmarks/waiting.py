"""Waiting for what will be so, with a deadline, seldom enough that the looking does not disturb the measuring."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

LONG: Final = 300.0
POLL: Final = 0.2


async def until(condition: Callable[[], Awaitable[bool]], what: str, seconds: float = LONG, poll: float = POLL) -> None:
    """Returns once `condition` holds. Raises TimeoutError that says what did not come within `seconds`."""
    deadline = time.monotonic() + seconds
    while not await condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:.0f} s: {what}")
        await asyncio.sleep(poll)
