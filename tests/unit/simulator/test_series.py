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


def azure(row: str) -> str:
    return f"{AZURE}{row}\n"


def mooncake(**fields: str) -> str:
    row = {"timestamp": "1", "input_length": "1", "output_length": "1", **fields}
    return MOONCAKE + "{" + ", ".join(f'"{name}": {value}' for name, value in row.items()) + "}"


def rates(*rows: str) -> str:
    return "\n".join(("time_s,rps", "0,5", "60,6", *rows))


MOMENT = "2023-11-16 18:15:59"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "line 1: '' is no known header: write TIMESTAMP"),
        ("hello\n1\n", "line 1: 'hello' is no known header: write TIMESTAMP"),
        ("\n\nhello\n", "line 3: 'hello' is no known header"),
        (AZURE.split("2023", maxsplit=1)[0], "two requests"),
        ("TIMESTAMP,ContextTokens\n", "line 1: no GeneratedTokens in the header: write TIMESTAMP,Con"),
        (AZURE.replace("396", "x"), "line 3: ContextTokens is 'x': write a number of tokens from 0 to 10,000,000"),
        *((azure(f"{MOMENT},{count},1"), "line 4: ContextTokens is") for count in ("nan", "inf", "1e30", "-6", "")),
        (azure(MOMENT), "line 4: write 3 fields, not 1"),
        (azure("\n" + MOMENT), "line 5: write 3 fields, not 1"),
        (azure("yesterday,1,2"), "line 4: TIMESTAMP 'yesterday' is no time: write it as 2023"),
        (azure(",,"), "line 4: TIMESTAMP ''"),
        (azure(f'"{MOMENT},1,2'), "line 4: not CSV (unexpected end of data): write its fields without quotes"),
        (azure("2033-11-16 18:15:46,1,2"), "line 4: 3.15619e+08 s after what comes before it"),
        (MOONCAKE + "{", "line 3: not JSON (Expecting property name"),
        (MOONCAKE + "[1, 2]", "line 3: no timestamp and no input_length and no output_length: write one JSON object"),
        ('[{"timestamp": 0}]', "line 1: no timestamp"),
        ('{"timestamp": 0, "input_length": 5}', "line 1: no output_length: write one JSON object a line"),
        ('{"timestamp":' + "[" * 100_000, "line 1: too deep"),
        (mooncake(timestamp="9" * 5000), "line 3: too deep or too long: write one JSON object a line"),
        *(
            (mooncake(timestamp=value), "line 3: timestamp is")
            for value in ("NaN", "Infinity", "9" * 400, "true", "null", '"x"', "[1]")
        ),
        (mooncake(output_length="-3"), "line 3: output_length is '-3': write a number of tokens"),
        ("time_s,rps\n0,5\n", "two windows"),
        ("time_s\n0\n60\n", "line 1: no column of rates beside time_s: write time_s,rps"),
        ("time_s,time_s\n0,5\n60,5\n", "line 1: two columns are named 'time_s': rename or leave out one of them"),
        (AZURE.replace("ContextTokens", "GeneratedTokens"), "line 1: two columns are named 'GeneratedTokens'"),
        ("time_s,rps\n0,0\n60,0\n", "every rps is zero"),
        ("time_s,rps\n0,1e-12\n60,1e-12\n", "every rps is zero"),
        *((rates(f"120,{rate}"), "line 4: rps is") for rate in ("many", "nan", "inf", "-6", "1e12", "")),
        *((rates(f"{moment},5"), "line 4: time_s is") for moment in ("nan", "-inf", "1e300", "noon")),
        *((rates(f"{moment},5"), f"line 4: time_s {moment} is not above the 60") for moment in ("60", "30")),
        (rates("120"), "line 4: write 2 fields, not 1"),
        (rates("120,1,5"), "line 4: write 2 fields, not 3: time_s,rps"),
        (rates("120," + "5" * 200_000), "line 4: not CSV (field larger"),
        (rates("120,6", "1e9,5"), "line 5: 1e+09 s after what comes before it, and the trace lasts 11,574 days"),
        (
            "time_s,rps\n0,5\n1e-7,5\n2e-7,5\n10,5\n",
            "line 5: time_s 10 comes 10 s after the row before: with",
        ),
    ],
)
def test_errors_tell_what_where_and_what_to_write(text: str, told: str) -> None:
    with pytest.raises(TraceError) as caught:
        parse_trace(text)
    assert told in str(caught.value)


@pytest.mark.parametrize("text", [AZURE, MOONCAKE, rates()])
@pytest.mark.parametrize("before", ["\ufeff", "\n\n", "\ufeff\n"])
def test_a_mark_or_blank_lines_before_the_first(text: str, before: str) -> None:
    plain, same = parse_trace(text), parse_trace(before + text.replace("\n", "\r\n"))
    assert np.array_equal(getattr(plain, "times", plain.seconds), getattr(same, "times", same.seconds))


@pytest.mark.parametrize("text", ["time_s, rps\n0, 5\n60, 6\n", '"time_s","rps"\n"0","5"\n\n"60", "6"\n'])
def test_blanks_and_quotes_around_fields(text: str) -> None:
    series = parse_trace(text)
    assert isinstance(series, RateSeries)
    assert series.rates.tolist() == [5, 6]


def test_times_with_more_digits_than_microseconds_keep_their_zone() -> None:
    load = parse_trace(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2024-05-10 02:00:00.0099301+02:00,3,0\n2024-05-10 00:00:05.0099301+00:00,3,4\n"
    )
    assert isinstance(load, Load)
    assert load.times.tolist() == [0, 5]
    assert load.output_tokens.tolist() == [1, 4]


def test_an_unknown_column_is_told_with_those_there_are() -> None:
    with pytest.raises(TraceError, match=r"no column 'c'.*there are a, b"):
        parse_trace("time_s,a,b\n0,5,1\n600,7,2\n", "c")


def test_the_time_is_no_column_of_rates() -> None:
    with pytest.raises(TraceError, match="no column 'time_s' of rates: there are rps"):
        parse_trace(rates(), "time_s")


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
