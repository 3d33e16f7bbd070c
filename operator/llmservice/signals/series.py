"""Points of one series, and what a window takes from them. Pure.

Deltas are computed here from raw samples, never by Prometheus: `rate()` extrapolates to the ends of its range, and asks
for at least two samples inside (prometheus#3746).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Point:
    """One sample: seconds since the epoch by the reader's clock, and the value."""

    at: float
    value: float


@dataclass(frozen=True)
class SeriesId:
    """A metric's name and the labels that its exporter gave it, without those of whoever scraped it."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, name: str, labels: Mapping[str, str]) -> SeriesId:
        """The series `name` with `labels`, in any order."""
        return cls(name, tuple(sorted(labels.items())))

    def label(self, name: str) -> str:
        """One label; empty where the series has none of that name."""
        return next((value for key, value in self.labels if key == name), "")


def growth(points: Sequence[Point], since: float, until: float, *, from_zero: bool) -> float:
    """How much a counter grew in (since, until]; one that fell has begun again and has grown from zero.

    `points` are in order of time. A series without a point at or before `since` is new: it counts from zero when
    `from_zero` (its exporter was read before, without it), else from its first point. What is no number (NaN, an
    infinity) is passed over, as if nobody had looked then.
    """
    base: float | None = None
    grown = 0.0
    for point in points:
        if point.at > until:
            break
        if not math.isfinite(point.value):
            continue
        if point.at <= since:
            base = point.value
            continue
        if base is None:
            base = 0.0 if from_zero else point.value
        grown += point.value - base if point.value >= base else point.value
        base = point.value
    return grown


def percentile(counts: Mapping[float, float], quantile: float) -> float | None:
    """The quantile of cumulative bucket counts, linear inside a bucket as Prometheus does; None without counts.

    In the last bucket, which has no upper end, it is the end of the one before: more is not known.
    """
    ends = sorted(counts)
    total = counts[ends[-1]] if ends else 0.0
    if total <= 0:
        return None
    rank, below_end, below = quantile * total, 0.0, 0.0
    for end in ends:
        if counts[end] >= rank:
            if math.isinf(end):
                return below_end
            inside = counts[end] - below
            return below_end + (end - below_end) * ((rank - below) / inside if inside else 1.0)
        below_end, below = end, counts[end]
    return below_end


@dataclass
class PodHistory:
    """The points of one pod's series over the last windows. `read_at` are the moments it was read with success."""

    points: dict[SeriesId, list[Point]] = field(default_factory=dict)
    read_at: list[float] = field(default_factory=list)

    def add(self, at: float, values: Iterable[tuple[SeriesId, float]]) -> None:
        """One look at the pod. A second look at the same moment, or one out of order, is dropped."""
        if self.read_at and at <= self.read_at[-1]:
            return
        self.read_at.append(at)
        for series, value in values:
            self.points.setdefault(series, []).append(Point(at, value))

    def beside(self, at: float, values: Iterable[tuple[SeriesId, float]]) -> None:
        """Counters of the pod from elsewhere than its page. No look at the pod: gauges that are not among them live."""
        for series, value in values:
            points = self.points.setdefault(series, [])
            if not points or at > points[-1].at:
                points.append(Point(at, value))

    def forget_before(self, at: float) -> None:
        """Drops points older than `at`, but one to count from."""
        for series, points in list(self.points.items()):
            kept = _from_the_last_before(points, at)
            if kept:
                self.points[series] = kept
            else:
                del self.points[series]
        self.read_at = [moment for moment in self.read_at if moment >= at][-1000:]

    def newest(self) -> float | None:
        """When it was last read; None: never."""
        return self.read_at[-1] if self.read_at else None

    def known_before(self, at: float, since: float = -math.inf) -> bool:
        """Whether it was read at or before `at` and not before `since`, so that what appeared later began from zero."""
        return any(since <= moment <= at for moment in self.read_at)


def _from_the_last_before(points: list[Point], at: float) -> list[Point]:
    """Points since `at` and the last one before. Empty where the series ended before `at`."""
    if not points or points[-1].at < at:
        return []
    first = next(index for index, point in enumerate(points) if point.at >= at)
    return points[max(0, first - 1) :]
