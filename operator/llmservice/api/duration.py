"""Durations in Kubernetes form: `5ms`, `30s`, `1m30s`."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Final

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from llmservice.api.schema import Rule, with_rules

_UNITS_US = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(us|ms|s|m|h)")
_WHOLE = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:us|ms|s|m|h))+")
_MAX_LENGTH = 32
_LONGEST_US = 200 * 365 * 24 * _UNITS_US["h"]
"""Go's durations, which the API server's rules compute with, end at 292 years."""
_ADMITTED = r"^[0-9]+(\.[0-9]+)?((us|ms|s|m|h)[0-9]+(\.[0-9]+)?)*(us|ms|s|m|h)?$"
"""What the API server admits before the rule below speaks: a missing last unit is the rule's to explain."""

_ENDS_IN_UNIT: Final = "({0}.endsWith('s') || {0}.endsWith('m') || {0}.endsWith('h'))"
_ENDS_IN_DIGIT: Final = (
    "['0', '1', '2', '3', '4', '5', '6', '7', '8', '9'].exists(digit, type(self) == int || self.endsWith(digit))"
)

DURATION_RULE: Final = Rule(
    code="own-duration-unit",
    expression=f"type(self) == string && {_ENDS_IN_UNIT.format('self')} && !self.contains(' ')",
    message=f"""type(self) == int && self < 0
        ? "%s is negative: write a number from 0 with its unit, such as 5ms".format([self])
        : {_ENDS_IN_DIGIT}
        ? "%s has no unit: write %sms, or another number with us, ms, s, m or h".format([self, self])
        : "%s is not a duration: write a number with its unit, such as 5ms, 30s or 1m30s".format([self])""",
)


def cel_duration(path: str) -> str:
    """CEL for the duration at `path`; one that `own-duration-unit` refuses counts as zero and is not judged twice."""
    return f"(type({path}) == string && {_ENDS_IN_UNIT.format(path)} ? duration({path}) : duration('0s'))"


def cel_if_duration(path: str, condition: str) -> str:
    """CEL for `condition`, true where the value at `path` is one that `own-duration-unit` refuses already."""
    return f"(type({path}) != string || !{_ENDS_IN_UNIT.format(path)} || {condition})"


def parse_duration(text: object) -> timedelta:
    """The duration that `text` writes. Raises ValueError that says what to write instead."""
    if isinstance(text, timedelta):
        return text
    if isinstance(text, (int, float)) and not isinstance(text, bool) and text >= 0:
        raise ValueError(f"{text} has no unit: write {text}ms, or another number with us, ms, s, m or h")
    if isinstance(text, str) and re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
        raise ValueError(f"{text} has no unit: write {text}ms, or another number with us, ms, s, m or h")
    if not isinstance(text, str) or len(text) > _MAX_LENGTH or not _WHOLE.fullmatch(text):
        raise ValueError(f"{text!r} is not a duration: write a number with its unit, such as 5ms, 30s or 1m30s")
    microseconds = sum(float(number) * _UNITS_US[unit] for number, unit in _PART.findall(text))
    if microseconds > _LONGEST_US:
        raise ValueError(f"{text} is longer than 200 years: write a shorter duration, such as 5ms, 30s or 1m30s")
    return timedelta(microseconds=microseconds)


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
    WithJsonSchema(
        with_rules({"x-kubernetes-int-or-string": True, "pattern": _ADMITTED, "maxLength": _MAX_LENGTH}, DURATION_RULE)
    ),
]
"""A duration that a person writes. The schema takes integers too, only so that a rule can say what is missing."""

MeasuredDuration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "maxLength": _MAX_LENGTH}),
]
"""A duration that the operator reports."""
