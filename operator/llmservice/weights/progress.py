"""What the weights step tells while it works: one JSON line a second on stdout, which the operator reads as the log.

A line is `{"phase", "percent", "bytes", "total_bytes", "bytes_per_second", "eta_seconds"}`; what is not known is null.
"""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Final, TextIO

WINDOW_SECONDS: Final = 10.0
"""The rate is of the last seconds: a stalled transfer shows as one."""


class Progress:
    """Counts the bytes of one phase, from several tasks of one thread, and prints at most one line a second."""

    def __init__(self, out: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = sys.stdout if out is None else out
        self._clock = clock
        self._phase = ""
        self._total: int | None = None
        self._bytes = 0
        self._printed = 0.0
        self._seen: deque[tuple[float, int]] = deque()
        self.transferred = 0
        """Bytes that came over the network in this run."""

    def begin(self, phase: str, total: int | None = None, done: int = 0) -> None:
        """Starts a phase of `total` bytes, `done` of which are there already."""
        self._phase, self._total, self._bytes = phase, total, done
        self._printed = self._clock()
        self._seen = deque([(self._printed, done)])
        self._print()

    def advance(self, count: int, *, transferred: bool = False) -> None:
        """Counts bytes that are done; a negative count takes back what turned out to be wrong."""
        self._bytes += count
        if transferred:
            self.transferred += count
        self.tick()

    def reach(self, count: int) -> None:
        """Sets the bytes done, where somebody else does the work."""
        self.advance(count - self._bytes)

    def tick(self) -> None:
        """Prints when a second has passed."""
        now = self._clock()
        if now - self._printed < 1.0:
            return
        self._printed = now
        self._seen.append((now, self._bytes))
        while len(self._seen) > 2 and now - self._seen[0][0] > WINDOW_SECONDS:
            self._seen.popleft()
        self._print()

    def line(self, fields: dict[str, object]) -> None:
        """Prints a line of its own kind."""
        print(json.dumps(fields), file=self._out, flush=True)

    def _print(self) -> None:
        (first, start), (last, end) = self._seen[0], self._seen[-1]
        rate = (end - start) / (last - first) if last > first else None
        left = None if self._total is None else max(0, self._total - self._bytes)
        percent = None if not self._total else round(100.0 * min(1.0, self._bytes / self._total), 1)
        self.line(
            {
                "phase": self._phase,
                "percent": percent,
                "bytes": self._bytes,
                "total_bytes": self._total,
                "bytes_per_second": None if rate is None else round(rate),
                "eta_seconds": None if left is None or not rate or rate < 0 else round(left / rate, 1),
            }
        )
