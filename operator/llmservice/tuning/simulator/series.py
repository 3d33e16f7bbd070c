"""Traces that others recorded: three file forms, and how a rate series is mended before it is played."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmservice.tuning.simulator.load import Load, RateSeries

Floats = NDArray[np.float64]

GAP_SHARE: Final = 0.1
"""A window below this share of what surrounds it is a hole in the recording."""
GAP_REACH: Final = 36
"""Windows to each side that count as surroundings."""
MOST_TOKENS: Final = 10_000_000
"""Of a prompt or an answer: no model takes more."""
MOST_RATE: Final = 1_000_000.0
LEAST_RATE: Final = 1e-9
"""Requests/s of the busiest window: less is nothing."""
FARTHEST: Final = 1e15
"""Seconds or milliseconds from zero: floats tell them apart so far."""
MOST_DAYS: Final = 31
"""A simulated month takes minutes."""
MOST_WINDOWS: Final = 100_000

_HEADER: Final = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_FIELDS: Final = ("timestamp", "input_length", "output_length")
_AN_OBJECT: Final = f"write one JSON object a line with {', '.join(_FIELDS)}"


class TraceError(ValueError):
    """The file is none of the forms, or a line of it is wrong."""


def parse_trace(text: str, column: str | None = None) -> Load | RateSeries:
    """A trace in one of three forms, told apart by its first line that is not blank.

    * Azure's LLM inference trace: CSV with `TIMESTAMP,ContextTokens,GeneratedTokens`;
    * Mooncake's: a JSON object a line with `timestamp` (ms), `input_length`, `output_length`;
    * a rate series: CSV with `time_s` and requests/s in `rps`, or in the column named.

    Raises TraceError with the line at fault.
    """
    text = text.lstrip("\ufeff")
    if text.lstrip().startswith(("{", "[")):
        return _mooncake(text)
    rows = _table(text)
    number, header = next(rows, (1, []))
    names = [name.strip() for name in header]
    twice = next((name for name in names if name and names.count(name) > 1), None)
    if twice is not None:
        raise TraceError(f"line {number}: two columns are named {twice[:40]!r}: rename or leave out one of them")
    if "time_s" in names:
        return _rates(rows, number, names, column)
    if "TIMESTAMP" in names:
        return _azure(rows, number, names)
    raise TraceError(
        f"line {number}: {','.join(names)[:80]!r} is no known header: write {','.join(_HEADER)} (Azure's form), "
        f"time_s,rps (a rate series), or one JSON object a line with {', '.join(_FIELDS)} (Mooncake's)"
    )


def mend(series: RateSeries) -> RateSeries:
    """The series without holes in the recording: windows with nearly nothing amid traffic are filled in, linearly.

    A recorder that was away looks like zero traffic; played as such it would ask for a scale-down and a scale-up that
    nobody's users ever caused. A window next to a hole is often half recorded, and counts as part of it when it too is
    far below its surroundings. Holes at an end take the nearest window.
    """
    rates = series.rates
    around = np.array(
        [np.median(rates[max(0, index - GAP_REACH) : index + GAP_REACH + 1]) for index in range(len(rates))]
    )
    present = rates[rates > 0]
    around = np.maximum(around, 0.2 * float(np.median(present)) if len(present) else 0.0)
    good = rates >= GAP_SHARE * around
    if not good.any():
        return series
    places = np.arange(len(rates))
    return RateSeries(np.interp(places, places[good], rates[good]), series.window)


def _table(text: str) -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV that are not blank, each with the line it begins at. Raises TraceError."""
    rows = csv.reader(io.StringIO(text), skipinitialspace=True, strict=True)
    begin = 1
    try:
        for row in rows:
            if len(row) > 1 or (row and row[0].strip()):
                yield begin, row
            begin = rows.line_num + 1
    except csv.Error as error:
        raise TraceError(f"line {begin}: not CSV ({error}): write its fields without quotes") from error


def _fields(rows: Iterator[tuple[int, list[str]]], names: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows by the names of the header. Raises TraceError for one with more or fewer fields."""
    for number, row in rows:
        if len(row) < len(names) or any(row[len(names) :]):
            raise TraceError(f"line {number}: write {len(names)} fields, not {len(row)}: {','.join(names)[:80]}")
        yield number, dict(zip(names, row, strict=False))


def _azure(rows: Iterator[tuple[int, list[str]]], first: int, names: Sequence[str]) -> Load:
    missing = [name for name in _HEADER if name not in names]
    if missing:
        raise TraceError(f"line {first}: no {' and no '.join(missing)} in the header: write {','.join(_HEADER)}")
    requests = []
    for number, row in _fields(rows, names):
        moment = _moment(row["TIMESTAMP"].strip(), number)
        prompt, answer = (_tokens(row[name], name, number) for name in _HEADER[1:])
        requests.append((number, moment, prompt, answer))
    return _load(requests)


def _moment(text: str, number: int) -> float:
    """Seconds since 1970 of a time of day, in UTC unless it says otherwise."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        wrong = f"line {number}: TIMESTAMP {text[:40]!r} is no time: write it as 2023-11-16 18:15:46.68"
        raise TraceError(wrong) from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _mooncake(text: str) -> Load:
    requests = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            said = f"not JSON ({error.msg})" if isinstance(error, json.JSONDecodeError) else "too deep or too long"
            raise TraceError(f"line {number}: {said}: {_AN_OBJECT}") from error
        missing = [name for name in _FIELDS if name not in row] if isinstance(row, dict) else _FIELDS
        if missing:
            raise TraceError(f"line {number}: no {' and no '.join(missing)}: {_AN_OBJECT}")
        moment = _number(row["timestamp"], "timestamp", number, "milliseconds") / 1000
        prompt, answer = (_tokens(row[name], name, number) for name in _FIELDS[1:])
        requests.append((number, moment, prompt, answer))
    return _load(requests)


def _rates(rows: Iterator[tuple[int, list[str]]], first: int, names: Sequence[str], column: str | None) -> RateSeries:
    others = [name for name in names if name != "time_s"]
    if not others:
        raise TraceError(f"line {first}: no column of rates beside time_s: write time_s,rps")
    column = column or ("rps" if "rps" in others else others[0])
    if column not in others:
        raise TraceError(f"line {first}: no column {column!r} of rates: there are {', '.join(others)}")
    lines: list[int] = []
    times: list[float] = []
    rates: list[float] = []
    for number, row in _fields(rows, names):
        moment = _number(row["time_s"], "time_s", number, "seconds")
        if times and moment <= times[-1]:
            raise TraceError(
                f"line {number}: time_s {moment:g} is not above the {times[-1]:g} before it: sort the rows"
            )
        lines.append(number)
        times.append(moment)
        rates.append(_number(row[column], column, number, "requests/s", 0.0, MOST_RATE))
    if len(times) < 2:
        raise TraceError("a rate series needs two windows or more")
    if max(rates) < LEAST_RATE:
        raise TraceError(f"every {column} is zero: a rate series needs requests/s above it")
    gaps = np.diff(times)
    window = float(np.median(gaps))
    place = _widest(lines, times)
    if times[-1] - times[0] > MOST_WINDOWS * window:
        raise TraceError(
            f"line {lines[place]}: time_s {times[place]:g} comes {gaps[place - 1]:g} s after the row before: with "
            f"windows of {window:g} s, as most are, they are more than {MOST_WINDOWS:,}: play a part, or longer windows"
        )
    grid = np.arange(times[0], times[-1] + 0.5 * window, window)
    return RateSeries(np.interp(grid, times, rates), window)


def _number(value: object, name: str, line: int, unit: str, least: float = -FARTHEST, most: float = FARTHEST) -> float:
    """`value` as a finite number. Raises TraceError where it is none, below `least` or above `most`."""
    try:
        found = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else np.nan
    except (ValueError, OverflowError):
        found = np.nan
    if least <= found <= most:
        return found
    bounds = f" from {least:,.0f} to {most:,.0f}" if least > -FARTHEST else ""
    raise TraceError(f"line {line}: {name} is {str(value)[:40]!r}: write a number of {unit}{bounds}")


def _tokens(value: object, name: str, line: int) -> float:
    """At least 1: a request that was recorded with none had one."""
    return max(1.0, _number(value, name, line, "tokens", 0, MOST_TOKENS))


def _widest(lines: Sequence[int], times: Sequence[float]) -> int:
    """Place of what comes after the widest gap of sorted times. Raises TraceError where they last too long."""
    place = int(np.argmax(np.diff(times))) + 1
    if times[-1] - times[0] > MOST_DAYS * 86400:
        raise TraceError(
            f"line {lines[place]}: {times[place] - times[place - 1]:g} s after what comes before it, and the trace "
            f"lasts {(times[-1] - times[0]) / 86400:,.0f} days: play a part of {MOST_DAYS} days or less"
        )
    return place


def _load(requests: Sequence[tuple[int, float, float, float]]) -> Load:
    """Requests as line, seconds, prompt and answer tokens, in order of arrival. Raises TraceError."""
    if len(requests) < 2:
        raise TraceError("a trace needs two requests or more")
    lines, times, inputs, outputs = zip(*sorted(requests, key=lambda request: request[1]), strict=True)
    _widest(lines, times)
    moments = np.array(times) - times[0]
    return Load(moments, np.array(inputs), np.array(outputs), float(moments[-1]) + 1.0)
