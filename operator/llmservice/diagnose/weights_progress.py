"""How far the weights are, from the JSON lines that the weights step prints (`weights/progress.py`)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

UNKNOWN: Final = "the model's files are on their way"
COARSE_PERCENT: Final = 5
"""Progress is told in steps of this size: a status is not a progress bar, and each step is a write."""


@dataclass(frozen=True)
class WeightsProgress:
    """One line of the step, coarse enough for a status. What is not known is None."""

    phase: str
    percent: int | None = None
    total_bytes: int | None = None
    bytes_per_second: int | None = None
    seconds_left: int | None = None

    def __str__(self) -> str:
        """As a sentence: `download: 45 % of 2.7 GB, 85 MB/s, about 20 s left`."""
        return f"{self.phase}: {self.figures or UNKNOWN}"

    @property
    def figures(self) -> str:
        """The sentence without its phase; empty where nothing is known."""
        parts = []
        if self.percent is not None and self.total_bytes is not None:
            parts.append(f"{self.percent} % of {self.total_bytes / 1e9:.1f} GB")
        if self.bytes_per_second:
            parts.append(f"{self.bytes_per_second / 1e6:g} MB/s")
        if self.seconds_left is not None:
            minutes = self.seconds_left // 60
            parts.append(f"about {f'{minutes} min' if minutes >= 2 else f'{self.seconds_left} s'} left")
        return ", ".join(parts)


def read_progress(line: str) -> WeightsProgress | None:
    """The progress that a line tells; None for a line that tells none."""
    fields = _parse(line)
    phase = fields.get("phase")
    if not isinstance(phase, str):
        return None
    percent, total = _number(fields, "percent"), _number(fields, "total_bytes")
    speed, left = _number(fields, "bytes_per_second"), _number(fields, "eta_seconds")
    return WeightsProgress(
        phase=phase,
        percent=None if percent is None else int(percent) // COARSE_PERCENT * COARSE_PERCENT,
        total_bytes=None if total is None else int(total),
        bytes_per_second=int(float(f"{speed:.2g}")) if speed and speed > 0 else None,
        seconds_left=None if left is None else _coarse(left),
    )


def is_moving(line: str) -> bool:
    """Whether the line tells of files that come, or are waited for or read; before that nothing is known."""
    progress = read_progress(line)
    return progress is not None and progress.percent is not None


def in_words(line: str) -> str:
    """One progress line as a sentence."""
    return str(read_progress(line) or UNKNOWN)


def cause_of(line: str) -> str:
    """The cause in the step's last line; the line itself where it is none."""
    message = _parse(line).get("message")
    return message if isinstance(message, str) else line


def _parse(line: str) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except json.JSONDecodeError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _number(fields: dict[str, Any], name: str) -> float | None:
    value = fields.get(name)
    return float(value) if isinstance(value, int | float) else None


def _coarse(seconds: float) -> int:
    minutes = round(seconds / 60)
    return 60 * minutes if minutes >= 2 else max(10, round(seconds / 10) * 10)
