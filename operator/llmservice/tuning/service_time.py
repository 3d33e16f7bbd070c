"""How long a batch of b takes: t(b), fitted with a hinge to what engines counted by batch size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

HINGE_GAIN: Final = 0.5
"""A second line must halve the squared error, else one line it is: a hinge in noise would mislead beyond it."""
LEAST_HINGE_ERROR: Final = 0.02
"""Relative error below which one line is good enough."""
UNSEEN_SLOPE: Final = 1 / 16
"""Of t(b) for one more sequence, where only one batch size was ever seen: batching is then assumed to gain little."""
REACH: Final = 1.5
"""How far beyond the largest batch seen the fit is believed (a GPU's line has a hinge somewhere: Vidur's A100 profile
of Llama-3-8B turns upwards at 128 tokens)."""


@dataclass(frozen=True)
class Point:
    """`seconds` is the mean of `count` batches of mean size `size`."""

    size: float
    seconds: float
    count: float


@dataclass(frozen=True)
class ServiceTime:
    """t(b) = max over `lines` of overhead + per_item · b, in seconds; convex, since each further line is steeper."""

    lines: tuple[tuple[float, float], ...]
    largest_seen: float = 0.0
    identified: bool = True
    """False where one batch size alone was seen, so that the slope is a guess."""
    exact: bool = True
    """False where it comes from counters by request and not by batch size."""

    def seconds(self, size: float) -> float:
        """Time of a batch of `size`."""
        return max(overhead + slope * size for overhead, slope in self.lines)

    def table(self, largest: int) -> Floats:
        """t(0), …, t(largest); entry 0 is unused."""
        sizes = np.arange(largest + 1, dtype=float)
        return np.asarray(np.max([overhead + slope * sizes for overhead, slope in self.lines], axis=0))

    @property
    def overhead(self) -> float:
        """A of the line at small batches."""
        return self.lines[0][0]

    @property
    def per_item(self) -> float:
        """C of the line at small batches."""
        return self.lines[0][1]

    def scaled(self, factor: float) -> ServiceTime:
        """`factor` times as slow."""
        return ServiceTime(
            tuple((factor * overhead, factor * slope) for overhead, slope in self.lines),
            self.largest_seen,
            self.identified,
            self.exact,
        )

    def throughput(self, largest: int) -> float:
        """Most items/s of one instance with batches up to `largest`."""
        return largest / self.seconds(largest)


def fit(points: Sequence[Point]) -> ServiceTime | None:
    """The convex line or two lines through `points` by least squares of the relative error; None without points."""
    kept = sorted((point for point in points if point.count > 0 and point.seconds > 0), key=lambda point: point.size)
    return _fit(tuple(kept)) if kept else None


@lru_cache(maxsize=64)
def _fit(points: tuple[Point, ...]) -> ServiceTime:
    size = np.array([point.size for point in points])
    seconds = np.array([point.seconds for point in points])
    weight = np.array([point.count for point in points]) / seconds**2
    if len(points) == 1 or size[-1] - size[0] < 0.5:
        slope = UNSEEN_SLOPE * seconds[-1] / size[-1]
        mean = float(np.average(seconds, weights=weight))
        middle = float(np.average(size, weights=weight))
        return ServiceTime(((mean - slope * middle, slope),), float(size[-1]), identified=False)
    one = line(size, seconds, weight)
    best: tuple[tuple[float, float], ...] = (one,)
    error = _error(best, size, seconds, weight)
    scale = float((weight * seconds**2).sum())
    if len(points) >= 6 and error / scale > LEAST_HINGE_ERROR**2:
        for cut in range(2, len(points) - 2):
            low = line(size[:cut], seconds[:cut], weight[:cut])
            high = line(size[cut:], seconds[cut:], weight[cut:])
            if high[1] <= low[1]:
                continue
            found = _error((low, high), size, seconds, weight)
            if found < (HINGE_GAIN * error if len(best) == 1 else error):
                best, error = (low, high), found
    return ServiceTime(best, float(size[-1]))


def line(size: Floats, seconds: Floats, weight: Floats) -> tuple[float, float]:
    """Overhead and slope by weighted least squares, neither negative."""
    total = weight.sum()
    middle, mean = (weight * size).sum() / total, (weight * seconds).sum() / total
    spread = (weight * (size - middle) ** 2).sum()
    slope = (weight * (size - middle) * (seconds - mean)).sum() / spread if spread > 0 else 0.0
    if slope <= 0:
        return float(mean), 0.0
    overhead = mean - slope * middle
    if overhead < 0:
        return 0.0, float((weight * size * seconds).sum() / (weight * size**2).sum())
    return float(overhead), float(slope)


def _error(lines: tuple[tuple[float, float], ...], size: Floats, seconds: Floats, weight: Floats) -> float:
    told = np.max([overhead + slope * size for overhead, slope in lines], axis=0)
    return float((weight * (told - seconds) ** 2).sum())
