"""What one pod did within one window, read from its history. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from llmservice.signals.adapters import Selector, Who
from llmservice.signals.series import PodHistory, Point, SeriesId, growth


@dataclass(frozen=True)
class PodWindow:
    """One pod's series between `since` and `until`, seconds since the epoch, of the service `service`.

    `from_zero`: what appeared within the window began from zero, because the pod was read before, or is that new.
    """

    history: PodHistory
    service: str
    since: float
    until: float
    from_zero: bool

    def part(self, since: float, until: float) -> PodWindow:
        """The same pod within a part of the window."""
        known = self.from_zero or self.history.known_before(since)
        return PodWindow(self.history, self.service, since, until, known)

    def has(self, selector: Selector) -> bool:
        """Whether the pod exports any series of the selector's name at all."""
        return any(series.name == selector.name for series in self.history.points)

    def grown(self, selector: Selector) -> float | None:
        """Growth of a counter over its series; None where the pod exports none of that name."""
        if not self.has(selector):
            return None
        return sum(self._growth(points) for _, points in self._series(selector))

    def grown_by(self, selector: Selector, label: str) -> dict[str, float]:
        """Growth of a counter by the values of one of its labels, without those that did not grow."""
        grown: dict[str, float] = {}
        for series, points in self._series(selector):
            more = self._growth(points)
            if more > 0:
                grown[series.label(label)] = grown.get(series.label(label), 0.0) + more
        return grown

    def level(self, selector: Selector, at: float) -> float | None:
        """A gauge at a moment, summed over its series; None where none was read by then, or one is no number.

        A series that the newest look no longer shows has ended, and counts nothing. Before a new pod was there, its
        gauges were zero: were they unknown, they would hide what is known of all others.
        """
        look = max((moment for moment in self.history.read_at if moment <= at), default=None)
        if not self.has(selector):
            return None
        if look is None:
            return 0.0 if self.from_zero else None
        found = [_value_at(points, look) for _, points in self._series(selector)]
        level = sum(value for value in found if value is not None)
        return level if math.isfinite(level) else None

    def mean_level(self, selector: Selector) -> float | None:
        """A gauge's mean over the looks of the window at which it was a number, the largest of its series.

        None where it was none at any of them.
        """
        means = []
        for _, points in self._series(selector):
            inside = [one.value for one in points if self.since < one.at <= self.until and math.isfinite(one.value)]
            if inside:
                means.append(sum(inside) / len(inside))
        return max(means, default=None)

    def buckets(self, selector: Selector) -> dict[float, float]:
        """Growth of a histogram's cumulative buckets by their upper end, over all its series."""
        part = Selector(f"{selector.name}_bucket", selector.who, selector.label, selector.value)
        return {float(end): grown for end, grown in self.grown_by(part, "le").items()}

    def total(self, selector: Selector, part: str) -> float:
        """Growth of a histogram's `sum` or `count`."""
        name = f"{selector.name}_{part}"
        return self.grown(Selector(name, selector.who, selector.label, selector.value)) or 0.0

    def _growth(self, points: Sequence[Point]) -> float:
        return growth(points, self.since, self.until, from_zero=self.from_zero)

    def _series(self, selector: Selector) -> Iterator[tuple[SeriesId, list[Point]]]:
        for series, points in self.history.points.items():
            if series.name == selector.name and _matches(series, selector, self.service):
                yield series, points


def _matches(series: SeriesId, selector: Selector, service: str) -> bool:
    if selector.who is Who.GATE and series.label("model") not in ("", service):
        return False
    return not selector.label or series.label(selector.label) == selector.value


def _value_at(points: Sequence[Point], look: float) -> float | None:
    return next((point.value for point in reversed(points) if point.at == look), None)


def added(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Several pods' growths by label, added up."""
    total: dict[str, float] = {}
    for part in parts:
        for label, value in part.items():
            total[label] = total.get(label, 0.0) + value
    return total
