"""Waits for what will be so, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
POLL_SECONDS = 0.5


def eventually(probe: Callable[[], T], what: str, seconds: float) -> T:
    """What `probe` answers once that is true. Fails after `seconds`, with what it answered last."""
    deadline = time.monotonic() + seconds
    while True:
        found = probe()
        if found:
            return found
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}; last seen: {found!r}"
        time.sleep(POLL_SECONDS)


def stays(probe: Callable[[], T], seconds: float) -> T:
    """What `probe` answers now, as long as it answers the same for `seconds`. Fails at the first other answer."""
    first, deadline = probe(), time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        now = probe()
        assert now == first, f"changed from {first!r} to {now!r}"
    return first


def settles(probe: Callable[[], T], quiet: float, within: float) -> T:
    """What `probe` answers once it has answered the same for `quiet` seconds. Fails after `within`."""
    deadline = time.monotonic() + within
    last, since = probe(), time.monotonic()
    while time.monotonic() - since < quiet:
        assert time.monotonic() < deadline, f"not the same for {quiet:.0f} s within {within:.0f} s; last seen: {last!r}"
        time.sleep(POLL_SECONDS)
        now = probe()
        if now != last:
            last, since = now, time.monotonic()
    return last
