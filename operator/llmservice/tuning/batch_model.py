"""Latencies of a replica whose batches run to completion, by setting and rate; bursts are mixed in.

Arrivals are Poisson with a rate that keeps for longer than a batch takes but not for a window: the latency of a request
is then that at the rate it met (quasi-stationary), and rates are weighed by the requests that meet them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmservice.tuning import closed_form
from llmservice.tuning.batcher import BINS, EDGES, LOADS, SPAN, Row, Setting, surface
from llmservice.tuning.service_time import ServiceTime

Floats = NDArray[np.float64]

Factors = tuple[tuple[float, float], ...]
"""(share of time, factor on the mean rate); see `burst.rate_factors`."""

STEADY: Final[Factors] = ((1.0, 1.0),)
FULL: Final = 1.0
"""Load at which a queue has no end: every request is slow."""
DISAGREEMENT: Final = 0.15
RATES: Final = 160
POWER: Final = 0.25
"""Shares of slow requests are interpolated over the load as this power of them, between straight and exponential."""
LEAST_SHARE: Final = 1e-4
"""Below what the simulated requests can tell."""


@dataclass(frozen=True)
class BatchModel:
    """A replica by setting. `rows[i]` belongs to `settings[i]`."""

    settings: tuple[Setting, ...]
    rows: tuple[Row, ...]
    factors: Factors = STEADY

    def row(self, setting: Setting) -> Row:
        """The simulated row of `setting`. Raises ValueError for one that was not simulated."""
        return self.rows[self.settings.index(setting)]

    def quantile(self, setting: Setting, rate: float, quantile: float) -> float:
        """Latency in seconds that the share `quantile` of requests does not exceed at `rate` requests/s."""
        row = self.row(setting)
        slow = np.zeros(BINS)
        for share, factor in self.factors:
            slow += share * factor * _between(row, row.survival**POWER, rate * factor, beyond=1.0) ** (1.0 / POWER)
        return _invert(slow, 1.0 - quantile) * row.unit

    def mean(self, setting: Setting, rate: float) -> float:
        """Mean latency in seconds; of a rate beyond the last simulated one, what the mean is there."""
        row = self.row(setting)
        return float(
            sum(share * factor * np.interp(rate * factor, row.rates, row.mean) for share, factor in self.factors)
        )

    def busy(self, setting: Setting, rate: float) -> float:
        """Share of time in which the accelerator computes."""
        row = self.row(setting)
        return float(np.interp(rate, [0.0, *row.rates], [0.0, *row.busy]))

    def largest_rate(self, setting: Setting, quantile: float, seconds: float) -> float:
        """Most requests/s at which `quantile` of requests take at most `seconds`; 0 where not even few do."""
        row = self.row(setting)
        place = np.log(max(seconds / row.unit, 1e-9)) * (BINS - 1) / np.log(SPAN)
        if place < 0:
            return 0.0
        low = min(BINS - 1, int(place))
        part = min(1.0, place - low)
        high = min(BINS - 1, low + 1)
        logs = np.log(np.maximum(row.survival, LEAST_SHARE))
        slow = np.exp(logs[:, low] + part * (logs[:, high] - logs[:, low])) ** POWER
        capacity = row.rates[-1] / LOADS[-1] * FULL
        rates = np.linspace(0.0, capacity, RATES)
        points, values = np.array([*row.rates, capacity]), np.array([*slow, 1.0])
        share = np.zeros(RATES)
        for weight, factor in self.factors:
            share += weight * factor * np.interp(rates * factor, points, values) ** (1.0 / POWER)
        fine = np.flatnonzero(share <= 1.0 - quantile)
        if len(fine) == 0:
            return 0.0
        last = int(fine[-1])
        if last == RATES - 1:
            return float(capacity)
        gap = share[last + 1] - share[last]
        return float(rates[last] + (rates[1] - rates[0]) * min(1.0, (1.0 - quantile - share[last]) / max(gap, 1e-12)))


def simulate(
    service_time: ServiceTime,
    largest: int,
    gains: tuple[float, ...],
    settings: tuple[Setting, ...],
    factors: Factors = STEADY,
) -> BatchModel:
    """The model of every setting in `settings`."""
    return BatchModel(settings, surface(ServiceTime(service_time.lines), largest, gains, settings), factors)


def disagreement(model: BatchModel, service_time: ServiceTime, largest: int) -> float:
    """How far simulation and Inoue's bound are apart, relatively, where both hold: one instance that never waits.

    The bound has no largest batch, so that only loads well below it are compared. 0 where there is nothing to compare.
    """
    greedy = Setting(1, 0.0)
    if greedy not in model.settings:
        return 0.0
    row = model.row(greedy)
    overhead, per_item = service_time.lines[0]
    if len(service_time.lines) > 1:
        (first, slope), (second, steeper) = service_time.lines[:2]
        largest = min(largest, int((first - second) / max(steeper - slope, 1e-12)))
    worst = 0.0
    for rate, mean in zip(row.rates, row.mean, strict=True):
        batch = rate * closed_form.batch_seconds(overhead, per_item, rate)
        if 1.0 < batch < largest / 3:
            bound = closed_form.mean_latency(overhead, per_item, rate)
            # The bound is up to 8 % above the mean by itself.
            worst = max(worst, abs(bound / mean - 1.04) - 0.04)
    return worst


def _between(row: Row, values: Floats, rate: float, beyond: float) -> Floats:
    """`values` (loads, …) at `rate`, linear between loads and up to `beyond` at full load."""
    capacity = row.rates[-1] / LOADS[-1] * FULL
    if rate <= row.rates[0]:
        return np.asarray(values[0])
    if rate >= row.rates[-1]:
        part = min(1.0, (rate - row.rates[-1]) / (capacity - row.rates[-1]))
        return np.asarray(values[-1] + part * (beyond - values[-1]))
    high = int(np.searchsorted(row.rates, rate))
    part = (rate - row.rates[high - 1]) / (row.rates[high] - row.rates[high - 1])
    return np.asarray(values[high - 1] + part * (values[high] - values[high - 1]))


def _invert(slow: Floats, allowed: float) -> float:
    """Where `slow`, falling over `EDGES`, comes down to `allowed`, in units; the last edge where it never does."""
    below = np.flatnonzero(slow <= allowed)
    if len(below) == 0:
        return float(EDGES[-1])
    first = int(below[0])
    if first == 0:
        return float(EDGES[0])
    before, after = np.log(slow[first - 1]), np.log(max(slow[first], LEAST_SHARE))
    part = (before - np.log(allowed)) / max(before - after, 1e-12)
    return float(EDGES[first - 1] * (EDGES[first] / EDGES[first - 1]) ** part)
