"""What a run comes to: requests within their objectives, minutes that are not, replica hours, changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmservice.tuning.settings import Metric, Objective
from llmservice.tuning.simulator.accelerate import compiled
from llmservice.tuning.simulator.counting import judge_requests
from llmservice.tuning.simulator.replica import ARRIVAL, FINISH, FIRST, OUTPUT, START

Floats = NDArray[np.float64]

MINUTE: Final = 60.0
LOWEST: Final = 1e-4
GROWTH: Final = float(np.log(1.02))
BUCKETS: Final = 960
"""Buckets of 2 % from `LOWEST` seconds on, for quantiles over runs too long to keep every request."""
METRICS: Final = (Metric.LATENCY, Metric.TIME_TO_FIRST_TOKEN, Metric.PER_OUTPUT_TOKEN)


def latencies(rows: Floats, metric: Metric) -> Floats:
    """Seconds of `metric` for finished requests."""
    if metric is Metric.LATENCY:
        return rows[:, FINISH] - rows[:, ARRIVAL]
    if metric is Metric.TIME_TO_FIRST_TOKEN:
        return rows[:, FIRST] - rows[:, ARRIVAL]
    gaps = np.maximum(1.0, rows[:, OUTPUT] - 1.0)
    return np.where(rows[:, OUTPUT] > 1, (rows[:, FINISH] - rows[:, FIRST]) / gaps, 0.0)


def waits(rows: Floats) -> Floats:
    """Seconds before the engine took each request."""
    return rows[:, START] - rows[:, ARRIVAL]


@dataclass
class Judge:
    """Counts requests as they finish.

    A request is slow when it misses any objective. A minute is violated when more of the requests that arrived in it
    are slow than the objectives' quantile allows.
    """

    objectives: Sequence[Objective]
    seconds: float
    jit: bool = False
    requests: Floats = field(init=False)
    """By the minute of arrival; so is `slow`."""
    slow: Floats = field(init=False)
    histograms: Floats = field(init=False)

    def __post_init__(self) -> None:
        minutes = int(np.ceil(self.seconds / MINUTE))
        self.requests = np.zeros(minutes)
        self.slow = np.zeros(minutes)
        self.histograms = np.zeros((len(self.objectives), BUCKETS))
        self._metrics = np.array([METRICS.index(one.metric) for one in self.objectives], dtype=np.int64)
        self._limits = np.array([one.seconds for one in self.objectives], dtype=float)

    def add(self, rows: Floats) -> None:
        """Counts finished requests."""
        kernel = compiled(judge_requests) if self.jit else judge_requests
        kernel(rows, self._metrics, self._limits, MINUTE, self.requests, self.slow, LOWEST, GROWTH, self.histograms)

    def add_lost(self, arrivals: Floats) -> None:
        """Counts requests that never finished, as slow."""
        minute = np.minimum((arrivals / MINUTE).astype(int), len(self.requests) - 1)
        np.add.at(self.requests, minute, 1.0)
        np.add.at(self.slow, minute, 1.0)

    def attainment(self, start: float = 0.0, end: float = np.inf) -> float:
        """Share of the requests arriving in whole minutes from `start` to `end` that met every objective."""
        part = slice(int(np.ceil(start / MINUTE)), None if np.isinf(end) else int(end / MINUTE))
        total = float(self.requests[part].sum())
        return 1.0 - float(self.slow[part].sum()) / total if total else 1.0

    def violated(self, start: float = 0.0, end: float = np.inf) -> float:
        """Share of violated minutes among those with requests."""
        part = slice(int(np.ceil(start / MINUTE)), None if np.isinf(end) else int(end / MINUTE))
        requests, slow = self.requests[part], self.slow[part]
        allowed = 1.0 - max((one.quantile for one in self.objectives), default=0.99)
        some = requests > 0
        return float((slow[some] > allowed * requests[some] + 1e-9).mean()) if some.any() else 0.0

    def quantile(self, objective: int, quantile: float) -> float:
        """Seconds of an objective's metric, up to 2 % too much; 0 without requests."""
        counts = np.cumsum(self.histograms[objective])
        if counts[-1] == 0:
            return 0.0
        bucket = int(np.searchsorted(counts, quantile * counts[-1]))
        return LOWEST * float(np.exp(GROWTH * (bucket + 1)))
