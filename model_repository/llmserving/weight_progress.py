"""What the weights step tells while it works: one JSON line a second, one last line, one clear cause when it fails."""

from __future__ import annotations

import errno
import json
import sys
import time
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import TextIO


class ExitCode(IntEnum):
    """How the weights step ended, as the exit code of its container."""

    DONE = 0
    UNEXPECTED = 1
    INVALID_SOURCE = 2
    NOT_FOUND = 3
    UNAUTHORIZED = 4
    DISK_FULL = 5
    NETWORK = 6
    BAD_FORMAT = 7


class WeightsError(Exception):
    """The weights cannot be had; the message is one line that says why and what to do."""

    def __init__(self, code: ExitCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def cause_of(error: OSError, target: Path) -> WeightsError:
    """The error of the file system in words of the weights step."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return disk_full(target, None)
    return WeightsError(ExitCode.UNEXPECTED, f"cannot write the weights to {target}: {error}")


def disk_full(target: Path, needed: int | None) -> WeightsError:
    """The error for a volume that is too small; `needed` in bytes where it is known beforehand."""
    need = "" if needed is None else f": {needed / 1e9:.2f} GB are needed"
    return WeightsError(ExitCode.DISK_FULL, f"the volume of {target} has no room for the weights{need}; make it larger")


class Progress:
    """Counts bytes of one phase and prints at most one line a second.

    A line is `{"phase", "percent", "bytes", "total_bytes", "bytes_per_second", "eta_seconds"}`; what is not known is
    null.
    """

    def __init__(self, out: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = sys.stdout if out is None else out
        self._clock = clock
        self._phase = ""
        self._total: int | None = None
        self._bytes = 0
        self._started = 0.0
        self._printed = 0.0

    def begin(self, phase: str, total: int | None, done: int = 0) -> None:
        """Starts a phase of `total` bytes, `done` of which an earlier try has left."""
        self._phase, self._total, self._bytes = phase, total, done
        self._first = done
        self._started = self._printed = self._clock()
        self._print()

    def advance(self, count: int) -> None:
        """Counts bytes that are done."""
        self.reach(self._bytes + count)

    def reach(self, count: int) -> None:
        """Sets the bytes done so far and prints when a second has passed."""
        self._bytes = count
        if self._clock() - self._printed >= 1.0:
            self._printed = self._clock()
            self._print()

    def finish(self, path: Path) -> None:
        """Prints the last line, with the folder that holds the weights."""
        self._line({"phase": "done", "percent": 100.0, "path": str(path)})

    def fail(self, error: WeightsError) -> None:
        """Prints the last line of a step that failed."""
        self._line({"phase": "failed", "reason": error.code.name, "message": str(error)})

    def _print(self) -> None:
        elapsed = self._clock() - self._started
        rate = (self._bytes - self._first) / elapsed if elapsed > 0 else None
        percent = None if not self._total else round(100.0 * min(1.0, self._bytes / self._total), 1)
        left = None if self._total is None else max(0, self._total - self._bytes)
        self._line(
            {
                "phase": self._phase,
                "percent": percent,
                "bytes": self._bytes,
                "total_bytes": self._total,
                "bytes_per_second": None if rate is None else round(rate),
                "eta_seconds": None if left is None or not rate else round(left / rate, 1),
            }
        )

    def _line(self, fields: dict[str, object]) -> None:
        print(json.dumps(fields), file=self._out, flush=True)
