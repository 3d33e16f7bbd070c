"""How far the weights are, from the JSON lines that the weights step prints (`llmserving/weight_progress.py`)."""

from __future__ import annotations

import json
from typing import Any, Final

UNKNOWN: Final = "the model's files are on their way"
COARSE_PERCENT: Final = 5
"""Progress is told in steps of this size: a status is not a progress bar, and each step is a write."""


def in_words(line: str) -> str:
    """One progress line as a sentence: `download: 45 % of 2.7 GB, 85 MB/s, about 20 s left`."""
    fields = _parse(line)
    phase = fields.get("phase")
    if not isinstance(phase, str):
        return UNKNOWN
    percent, total = _number(fields, "percent"), _number(fields, "total_bytes")
    speed, left = _number(fields, "bytes_per_second"), _number(fields, "eta_seconds")
    parts = []
    if percent is not None and total is not None:
        parts.append(f"{int(percent) // COARSE_PERCENT * COARSE_PERCENT} % of {total / 1e9:.1f} GB")
    if speed:
        parts.append(f"{float(f'{speed / 1e6:.2g}'):g} MB/s")
    if left is not None:
        parts.append(f"about {_coarse(left)} left")
    return f"{phase}: {', '.join(parts)}" if parts else f"{phase}: {UNKNOWN}"


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


def _coarse(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes >= 2 else f"{max(10, round(seconds / 10) * 10)} s"
