from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmservice.api.duration import format_duration, parse_duration

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("5ms", timedelta(milliseconds=5)),
        ("1m30s", timedelta(seconds=90)),
        ("0.5s", timedelta(milliseconds=500)),
        ("250us", timedelta(microseconds=250)),
        ("0s", timedelta(0)),
    ],
)
def test_kubernetes_form_is_read(text: str, duration: timedelta) -> None:
    assert parse_duration(text) == duration


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (5, "write 5ms"),
        ("5", "write 5ms"),
        ("1.5", "write 1.5ms"),
        ("5 ms", "not a duration"),
        ("-5ms", "not a duration"),
        ("5ms\n", "not a duration"),
        ("ms", "not a duration"),
        ("1d", "not a duration"),
        ("9" * 40 + "s", "not a duration"),
        ("99999999999999h", "longer than 200 years"),
        (True, "not a duration"),
        (None, "not a duration"),
        ([], "not a duration"),
    ],
)
def test_anything_else_is_told_what_to_write(text: object, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_duration(text)


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=9999)))
def test_what_is_written_reads_back(duration: timedelta) -> None:
    assert parse_duration(format_duration(duration)) == duration
