"""Means over paired seeds with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 2000


@dataclass(frozen=True)
class Interval:
    """A mean and the 95 % percentile interval of its bootstrap."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.4g} [{self.low:.4g}, {self.high:.4g}]"


def interval(values: Sequence[float]) -> Interval:
    """Over values of paired seeds; the interval is the value itself where there is one only."""
    array = np.asarray(values, dtype=float)
    picks = np.random.default_rng(0).integers(0, len(array), (RESAMPLES, len(array)))
    low, high = np.quantile(array[picks].mean(axis=1), [0.025, 0.975])
    return Interval(float(array.mean()), float(low), float(high))
