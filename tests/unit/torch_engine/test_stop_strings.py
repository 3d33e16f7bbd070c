"""Text ends before the first stop string, and is never shown and then taken back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtorch.stop_strings import StopStrings

pytestmark = pytest.mark.unit

SHORT = st.text("abc", max_size=12)
STOPS = st.lists(st.text("abc", min_size=1, max_size=4), max_size=3)


def test_text_that_might_begin_a_stop_string_waits() -> None:
    stops = StopStrings(["END"])
    assert stops.push("the E") == ("the ", False)
    assert stops.push("N") == ("", False)
    assert stops.push("G") == ("ENG", False)
    assert stops.push("EN") == ("", False)
    assert stops.push("D.") == ("", True)


def test_what_waited_comes_when_the_answer_ends_otherwise() -> None:
    stops = StopStrings(["\n\n"])
    assert stops.push("done\n") == ("done", False)
    assert stops.flush() == "\n"
    assert stops.flush() == ""


def test_the_stop_string_that_begins_first_counts() -> None:
    assert StopStrings(["later", "soon"]).push("so soon or later") == ("so ", True)


@given(SHORT, STOPS)
def test_letter_by_letter_like_looking_at_the_whole_text_each_time(text: str, stops: list[str]) -> None:
    streamed, shown = StopStrings(stops), ""
    for end in range(1, len(text) + 1):
        new, stopped = streamed.push(text[end - 1])
        shown += new
        found = [at for stop in stops if (at := text[:end].find(stop)) >= 0]
        assert stopped is bool(found)
        assert text.startswith(shown)
        if stopped:
            assert shown == text[: min(found)]
            return
    assert shown + streamed.flush() == text


@given(st.lists(SHORT, max_size=6), STOPS)
def test_no_stop_string_is_ever_shown(pieces: list[str], stops: list[str]) -> None:
    streamed, shown = StopStrings(stops), ""
    for piece in pieces:
        new, stopped = streamed.push(piece)
        shown += new
        if stopped:
            break
    else:
        shown += streamed.flush()
        assert shown == "".join(pieces)
    assert not any(stop in shown for stop in stops)
