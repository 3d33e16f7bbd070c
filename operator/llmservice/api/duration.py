"""Durations in Kubernetes form: `5ms`, `30s`, `1m30s`."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_UNITS_US = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}
_PART = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s|m|h)")
PATTERN = r"^(?:\d{1,9}(?:\.\d{1,6})?(?:us|ms|s|m|h)){1,4}$"


def parse_duration(text: object) -> timedelta:
    """The duration that `text` writes. Raises ValueError that says what to write instead."""
    if isinstance(text, timedelta):
        return text
    if not isinstance(text, str) or not re.match(PATTERN, text):
        raise ValueError(f"{text!r} is not a duration: write a number with its unit, such as '5ms', '30s' or '1m30s'")
    return timedelta(microseconds=sum(float(number) * _UNITS_US[unit] for number, unit in _PART.findall(text)))


def format_duration(duration: timedelta) -> str:
    """The shortest exact Kubernetes form of `duration` in one unit: `5ms`, `1500us`, `90s`."""
    microseconds = duration // timedelta(microseconds=1)
    for unit in ("h", "m", "s", "ms"):
        if microseconds and microseconds % _UNITS_US[unit] == 0:
            return f"{microseconds // _UNITS_US[unit]}{unit}"
    return f"{microseconds}us" if microseconds else "0ms"


Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "pattern": PATTERN, "maxLength": 32}),
]
