"""What a person sees on a terminal, and what a log gets."""

from __future__ import annotations

import io

import pytest

from llmservice.local.screen import Screen

pytestmark = pytest.mark.unit


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class ClosedPipe(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_on_a_terminal_figures_are_written_over_and_other_lines_stay() -> None:
    out = Terminal()
    screen = Screen(out)
    screen.live("a")
    screen.live("a")
    screen.live("b")
    screen.say("said")
    assert out.getvalue() == "\r\x1b[2Ka\r\x1b[2Kb\r\x1b[2Ksaid\n"


def test_a_long_line_stays_one_line() -> None:
    out = Terminal()
    Screen(out).live("x" * 500)
    assert len(out.getvalue()) < 500
    assert out.getvalue().endswith("…")


def test_elsewhere_figures_are_plain_lines_every_few_seconds() -> None:
    out, now = io.StringIO(), [0.0]
    screen = Screen(out, clock=lambda: now[0])
    for second in range(11):
        now[0] = float(second)
        screen.live(f"at {second}")
    screen.say("said")
    assert out.getvalue() == "at 0\nat 5\nat 10\nsaid\n"


def test_a_reader_that_is_gone_is_noticed_and_never_written_to_again() -> None:
    screen = Screen(ClosedPipe())
    screen.say("a")
    screen.say("b")
    assert screen.gone
