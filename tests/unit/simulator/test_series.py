"""Files that others recorded."""

from __future__ import annotations

import numpy as np
import pytest

from llmservice.tuning.simulator.load import Load, RateSeries
from llmservice.tuning.simulator.series import TraceError, mend, parse_trace

pytestmark = pytest.mark.unit

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
"""
MOONCAKE = """{"timestamp": 1000, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1]}
{"timestamp": 0, "input_length": 7322, "output_length": 490, "hash_ids": [0]}
"""


def test_azure() -> None:
    load = parse_trace("\ufeff" + AZURE)
    assert isinstance(load, Load)
    assert load.times.tolist() == pytest.approx([0, 4.314579])
    assert load.input_tokens.tolist() == [374, 396]
    assert load.output_tokens.tolist() == [44, 109]


def test_mooncake_in_any_order() -> None:
    load = parse_trace(MOONCAKE)
    assert isinstance(load, Load)
    assert load.times.tolist() == [0, 1]
    assert load.input_tokens.tolist() == [7322, 6758]


def test_rates() -> None:
    series = parse_trace("time_s,rps\n0,5\n600,7\n1200,6\n")
    assert isinstance(series, RateSeries)
    assert (series.window, series.rates.tolist()) == (600, [5, 7, 6])


def test_a_column_by_name() -> None:
    series = parse_trace("time_s,a,b\n0,5,1\n600,7,2\n", "b")
    assert isinstance(series, RateSeries)
    assert series.rates.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("hello\n1\n", "line 1"),
        ("time_s,rps\n0,5\n600,many\n", "line 3"),
        ("time_s,rps\n0,5\n", "two windows"),
        ("time_s,rps\n0,5\n600,-1\n", "below zero"),
        (AZURE.replace("396", "x"), "line 3"),
        (MOONCAKE + "{", "line 3"),
    ],
)
def test_errors_tell_where(text: str, told: str) -> None:
    with pytest.raises(TraceError, match=told):
        parse_trace(text)


def test_an_unknown_column_is_told_with_those_there_are() -> None:
    with pytest.raises(TraceError, match=r"no column 'c'.*a, b"):
        parse_trace("time_s,a,b\n0,5,1\n600,7,2\n", "c")


def test_holes_are_filled_with_their_half_recorded_edges() -> None:
    rates = np.full(100, 1000.0)
    rates[40:46] = [0, 0, 0, 0, 0, 14]
    rates[46] = 2000
    mended = mend(RateSeries(rates, 600.0)).rates
    assert mended[39:47].tolist() == pytest.approx([1000, *(1000 + 1000 * step / 7 for step in range(1, 7)), 2000])


def test_a_quiet_night_is_no_hole() -> None:
    rates = 500 + 400 * np.sin(np.arange(288) / 144 * 2 * np.pi)
    assert mend(RateSeries(rates, 600.0)).rates.tolist() == rates.tolist()


def test_holes_at_the_ends_take_what_is_next() -> None:
    rates = np.full(50, 10.0)
    rates[:3] = 0
    rates[-2:] = 0
    assert mend(RateSeries(rates, 600.0)).rates.tolist() == [10.0] * 50
