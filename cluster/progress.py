"""Lines that say what is done and why, with the seconds since the start; details go to files."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

_start = time.monotonic()
_lock = threading.Lock()


def say(message: str) -> None:
    """Print one line to stderr, so that stdout stays free for answers."""
    with _lock:
        print(f"[{time.monotonic() - _start:6.1f}s] {message}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def step(what: str, why: str) -> Iterator[None]:
    """Announce a step that may take long, and how long it took."""
    begin = time.monotonic()
    say(f"{what}: {why}")
    yield
    say(f"{what}: done in {time.monotonic() - begin:.1f} s")
