"""What a person sees: lines that stay, and below them one that is written over; plain lines where nobody looks."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from typing import Final, TextIO

PLAIN_SECONDS: Final = 5.0
"""Between two lines of figures where the output is no terminal."""
_CLEAR: Final = "\r\x1b[2K"


class Screen:
    """Writes to `out`. `gone` is set when nobody reads it any more (a closed terminal or pipe)."""

    def __init__(self, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self.gone = False
        self._out = out
        self._clock = clock
        self._terminal = out.isatty()
        self._shown = ""
        self._plain_at: float | None = None

    def say(self, text: str) -> None:
        """A line that stays."""
        self.clear()
        self._write(f"{text}\n")

    def live(self, text: str) -> None:
        """The line that is written over; where there is no terminal, a plain line every few seconds."""
        if not self._terminal:
            now = self._clock()
            if self._plain_at is None or now - self._plain_at >= PLAIN_SECONDS:
                self._plain_at = now
                self._write(f"{text}\n")
            return
        width = max(20, shutil.get_terminal_size().columns - 1)
        line = text if len(text) <= width else f"{text[: width - 1]}…"
        if line != self._shown:  # a line that is written again flickers
            self._shown = line
            self._write(f"{_CLEAR}{line}")

    def clear(self) -> None:
        """Takes the line that is written over away, so that others may write."""
        if self._shown:
            self._shown = ""
            self._write(_CLEAR)

    def _write(self, text: str) -> None:
        if self.gone:
            return
        try:
            self._out.write(text)
            self._out.flush()
        except (OSError, ValueError):
            self.gone = True
