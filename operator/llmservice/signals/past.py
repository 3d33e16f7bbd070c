"""The past of one service from a Prometheus, by windows: what `llmservice simulate --from-prometheus` replays."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
from numpy.typing import NDArray
from prometheus_api_client import PrometheusConnect
from urllib3.exceptions import LocationParseError
from urllib3.util import parse_url

from llmservice.signals.prometheus import NO_URL, PrometheusError, answered
from llmservice.tuning.simulator.history import History, HistoryError

Floats = NDArray[np.float64]

MOST_POINTS: Final = 10_000
"""Prometheus answers no more than 11,000 points a series."""
SCRAPES: Final = 4
LOOKED_BACK: Final = 600.0
TIMEOUT_SECONDS: Final = 60


def window_for(seconds: float, interval: float = 15.0) -> float:
    """Seconds of one window for so long a past: whole minutes.

    One, or more where that would be too many points, or where `interval`, the seconds between two scrapes, leaves
    less than `SCRAPES` of them in a window: Prometheus' own default is a minute, and a growth takes two.
    """
    return 60.0 * max(1, int(np.ceil(seconds / 60.0 / MOST_POINTS)), int(np.ceil(SCRAPES * interval / 60.0 - 1e-6)))


def _interval(client: PrometheusConnect, selector: str, end: datetime, seconds: float) -> float:
    """Seconds between two scrapes, by how many there were; a minute where that is not known."""
    looked = min(seconds, LOOKED_BACK)
    found = _Reader(client, end, end, looked, 1).query(f"max(count_over_time({selector}[{looked:.0f}s]))")
    samples = next((value for _, points in found for _, value in points), 0.0)
    return looked / samples if samples >= 2 else 60.0


def read_past(client: PrometheusConnect, namespace: str, service: str, end: datetime, seconds: float) -> History:
    """The last `seconds` before `end`.

    Raises PrometheusError when Prometheus does not answer, or not with samples; HistoryError for less than two windows.
    """
    space = f'namespace="{namespace}"'
    gate = f'{{{space},model="{service}"}}'
    window = window_for(seconds, _interval(client, f"llm_gate_requests_total{gate}", end, seconds))
    count = int(seconds // window)
    if count < 2:
        raise HistoryError(f"{seconds:g} s are less than two windows of {window:.0f} s: look further back")
    start = end - timedelta(seconds=count * window)
    engine = f'{space},model="{service}-engine"'
    reader = _Reader(client, start + timedelta(seconds=window), end, window, count)
    steps = reader.by_label("batch_size", f"llm_engine_steps_total{{{engine}}}")
    seconds_by_size = reader.by_label("batch_size", f"llm_engine_step_seconds_total{{{engine}}}")
    sizes = sorted(set(steps) & set(seconds_by_size), key=float)
    return History(
        window=window,
        arrivals=reader.total(f"llm_gate_requests_total{gate}"),
        completed=reader.total(f'llm_gate_requests_total{{{space},model="{service}",outcome="completed"}}'),
        prompt_tokens=reader.total(f'llm_engine_tokens_total{{{engine},kind="prompt"}}'),
        generated_tokens=reader.total(f'llm_engine_tokens_total{{{engine},kind="generated"}}'),
        sizes=np.array([float(size) for size in sizes]),
        steps=_columns([steps[size] for size in sizes], count),
        step_seconds=_columns([seconds_by_size[size] for size in sizes], count),
    )


def connect(url: str) -> PrometheusConnect:
    """A client for `url`. Raises PrometheusError where that is none."""
    try:
        parts = parse_url(url)
    except LocationParseError as error:
        raise PrometheusError(NO_URL) from error
    if parts.scheme not in ("http", "https") or not parts.host:
        raise PrometheusError(NO_URL)
    return PrometheusConnect(url=url.rstrip("/"), disable_ssl=False, timeout=TIMEOUT_SECONDS)


class _Reader:
    """Range queries over the same windows."""

    def __init__(self, client: PrometheusConnect, start: datetime, end: datetime, window: float, count: int) -> None:
        self._client, self._start, self._end, self._window, self._count = client, start, end, window, count

    def total(self, selector: str) -> Floats:
        """Growth of a counter in each window, over all its series; NaN where it was not there."""
        found = self.query(f"sum(increase({selector}[{self._range}]))")
        return self._row(found[0][1]) if found else np.full(self._count, np.nan)

    def by_label(self, label: str, selector: str) -> Mapping[str, Floats]:
        """The same, by the values of a label, which are numbers above zero. Raises PrometheusError where one is not."""
        found = self.query(f"sum by ({label}) (increase({selector}[{self._range}]))")
        rows = {str(labels[label]): self._row(points) for labels, points in found if labels.get(label)}
        for text in rows:
            if not 0 < _float(text) < np.inf:
                raise PrometheusError(f"has {selector} with {label}={text!r}, which is no number: see who exports it")
        return rows

    @property
    def _range(self) -> str:
        return f"{self._window:.0f}s"

    def query(self, query: str) -> list[tuple[Mapping[str, str], list[tuple[float, float]]]]:
        """Labels and points of each series that Prometheus answers; see `read_past` for what is raised."""
        answer = answered(self._client.custom_query_range, query, self._start, self._end, self._range)
        try:
            return [(dict(one["metric"]), [(float(at), float(value)) for at, value in one["values"]]) for one in answer]
        except (KeyError, TypeError, ValueError) as error:
            raise PrometheusError(f"answers {query} in another form than samples over time: check the URL") from error

    def _row(self, points: list[tuple[float, float]]) -> Floats:
        """Values by window; what is no growth, such as Prometheus' NaN, counts as not there."""
        row = np.full(self._count, np.nan)
        first = self._start.astimezone(UTC).timestamp()
        for at, value in points:
            place = (at - first) / self._window
            if -0.5 <= place < self._count - 0.5 and 0 <= value < np.inf:
                row[round(place)] = value
        return row


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan


def _columns(rows: list[Floats], count: int) -> Floats:
    return np.column_stack(rows) if rows else np.zeros((count, 0))
