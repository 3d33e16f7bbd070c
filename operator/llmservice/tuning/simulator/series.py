"""Traces that others recorded: three file forms, and how a rate series is mended before it is played."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmservice.tuning.simulator.load import Load, RateSeries

Floats = NDArray[np.float64]

GAP_SHARE: Final = 0.1
"""A window below this share of what surrounds it is a hole in the recording."""
GAP_REACH: Final = 36
"""Windows to each side that count as surroundings."""


class TraceError(ValueError):
    """The file is none of the forms, or a line of it is wrong."""


def parse_trace(text: str, column: str | None = None) -> Load | RateSeries:
    """A trace in one of three forms, told apart by its first line.

    * Azure's LLM inference trace: CSV with `TIMESTAMP,ContextTokens,GeneratedTokens`;
    * Mooncake's: a JSON object a line with `timestamp` (ms), `input_length`, `output_length`;
    * a rate series: CSV with `time_s` and requests/s in `rps`, or in the column named.

    Raises TraceError with the line at fault.
    """
    first = text.lstrip("\ufeff").split("\n", 1)[0].strip()
    if first.startswith("{"):
        return _mooncake(text)
    names = [name.strip() for name in first.split(",")]
    if "TIMESTAMP" in names and "ContextTokens" in names:
        return _azure(text)
    if "time_s" in names:
        return _rates(text, names, column)
    raise TraceError(
        f"line 1: {first[:80]!r} is no known header: write TIMESTAMP,ContextTokens,GeneratedTokens (Azure's form), "
        "time_s,rps (a rate series), or one JSON object a line with timestamp, input_length, output_length (Mooncake's)"
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


def _azure(text: str) -> Load:
    times, inputs, outputs = [], [], []
    for number, row in enumerate(csv.DictReader(io.StringIO(text.lstrip("\ufeff"))), start=2):
        try:
            # Seven digits of a second, of which datetime reads six.
            times.append(datetime.fromisoformat(row["TIMESTAMP"].strip()[:26]).timestamp())
            inputs.append(float(row["ContextTokens"]))
            outputs.append(float(row["GeneratedTokens"]))
        except (KeyError, ValueError, AttributeError, TypeError) as error:
            raise TraceError(f"line {number}: {error}") from error
    return _load(times, inputs, outputs)


def _mooncake(text: str) -> Load:
    times, inputs, outputs = [], [], []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            times.append(float(row["timestamp"]) / 1000)
            inputs.append(float(row["input_length"]))
            outputs.append(float(row["output_length"]))
        except (KeyError, ValueError, TypeError) as error:
            raise TraceError(f"line {number}: {error!r}") from error
    return _load(times, inputs, outputs)


def _rates(text: str, names: Sequence[str], column: str | None) -> RateSeries:
    column = column or ("rps" if "rps" in names else next(name for name in names if name != "time_s"))
    if column not in names:
        raise TraceError(f"no column {column!r}: there are {', '.join(names)}")
    times, rates = [], []
    for number, row in enumerate(csv.DictReader(io.StringIO(text.lstrip("\ufeff"))), start=2):
        try:
            times.append(float(row["time_s"]))
            rates.append(float(row[column]))
        except (KeyError, ValueError, TypeError) as error:
            raise TraceError(f"line {number}: {error}") from error
    if len(times) < 2:
        raise TraceError("a rate series needs two windows or more")
    gaps = np.diff(times)
    if gaps.min() <= 0 or min(rates) < 0:
        raise TraceError("a rate series needs growing time_s and no rate below zero")
    window = float(np.median(gaps))
    grid = np.arange(times[0], times[-1] + 0.5 * window, window)
    return RateSeries(np.interp(grid, times, rates), window)


def _load(times: Sequence[float], inputs: Sequence[float], outputs: Sequence[float]) -> Load:
    if len(times) < 2:
        raise TraceError("a trace needs two requests or more")
    order = np.argsort(times, kind="stable")
    moments = np.array(times)[order] - min(times)
    return Load(
        moments,
        np.maximum(1.0, np.array(inputs)[order]),
        np.maximum(1.0, np.array(outputs)[order]),
        float(moments[-1]) + 1.0,
    )
