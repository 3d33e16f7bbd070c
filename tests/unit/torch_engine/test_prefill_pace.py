"""How many tokens of prompts a step may bring beside answers follows from how long steps took."""

from __future__ import annotations

import pytest

from llmtorch.prefill_pace import LEAST_TOKENS, OUTLIER, WEIGHT, PrefillPace

pytestmark = pytest.mark.unit


def test_while_nothing_is_known_as_few_as_ever() -> None:
    pace = PrefillPace()
    pace.observe(4, 0, 0.040)
    pace.observe(4, LEAST_TOKENS - 1, 0.041)
    assert pace.limit() == LEAST_TOKENS


def test_as_many_as_double_the_step() -> None:
    pace = PrefillPace()
    pace.observe(4, 0, 0.040)
    pace.observe(4, 100, 0.060)  # 0.2 ms a token
    assert pace.limit() == pytest.approx(200, abs=1)


def test_never_so_few_that_prompts_do_not_go_on() -> None:
    pace = PrefillPace()
    pace.observe(4, 0, 0.001)
    pace.observe(0, 100, 1.0)
    assert pace.limit() == LEAST_TOKENS


def test_a_clock_that_stands_still_says_nothing() -> None:
    pace = PrefillPace()
    pace.observe(4, 0, 0.0)
    pace.observe(4, 100, 0.0)
    assert pace.limit() == LEAST_TOKENS


def test_one_slow_step_moves_little() -> None:
    pace = PrefillPace()
    pace.observe(4, 0, 0.040)
    pace.observe(4, 100, 0.060)
    pace.observe(4, 0, 100.0)
    assert pace.limit() == pytest.approx(200 * (1 + WEIGHT * (OUTLIER - 1)), abs=2)
