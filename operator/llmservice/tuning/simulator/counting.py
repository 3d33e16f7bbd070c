"""Finished requests into histograms, in one pass: what sensors and judge do for every request of a run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def count_requests(rows: Floats, latency_edges: Floats, token_edges: Floats, sums: Floats, histograms: Floats) -> None:
    """Adds finished requests to one pod's counters.

    `sums` are prompt tokens, output tokens, seconds waited and seconds computed. `histograms` has a row each for
    latency, time to first token, time per output token and time waited; its last column is the sum of seconds.
    """
    for index in range(rows.shape[0]):
        arrival, start, first, finish = rows[index, 0], rows[index, 1], rows[index, 2], rows[index, 3]
        sums[0] += rows[index, 4]
        sums[1] += rows[index, 5]
        sums[2] += start - arrival
        sums[3] += finish - start
        for kind in range(4):
            if kind == 0:
                seconds = finish - arrival
            elif kind == 1:
                seconds = first - arrival
            elif kind == 2:
                seconds = (finish - first) / (rows[index, 5] - 1.0) if rows[index, 5] > 1.0 else 0.0
            else:
                seconds = start - arrival
            edges = token_edges if kind == 2 else latency_edges
            histograms[kind, np.searchsorted(edges, seconds)] += 1.0
            histograms[kind, histograms.shape[1] - 1] += seconds


def judge_requests(
    rows: Floats,
    metrics: NDArray[np.int64],
    limits: Floats,
    minute: float,
    requests: Floats,
    slow: Floats,
    lowest: float,
    growth: float,
    histograms: Floats,
) -> None:
    """Adds finished requests to their minute of arrival, and to a histogram with buckets `growth` (a logarithm) apart.

    `metrics` are 0 for latency, 1 for time to first token, 2 for time per output token; `limits` their objectives.
    """
    for index in range(rows.shape[0]):
        late = False
        for number in range(metrics.shape[0]):
            if metrics[number] == 0:
                seconds = rows[index, 3] - rows[index, 0]
            elif metrics[number] == 1:
                seconds = rows[index, 2] - rows[index, 0]
            elif rows[index, 5] > 1.0:
                seconds = (rows[index, 3] - rows[index, 2]) / (rows[index, 5] - 1.0)
            else:
                seconds = 0.0
            late = late or seconds > limits[number]
            bucket = int(np.log(max(seconds, lowest) / lowest) / growth)
            histograms[number, min(bucket, histograms.shape[1] - 1)] += 1.0
        place = min(int(rows[index, 0] / minute), requests.shape[0] - 1)
        requests[place] += 1.0
        if late:
            slow[place] += 1.0
