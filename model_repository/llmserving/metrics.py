"""Counters, gauges and histograms on Triton's metrics endpoint, or in memory.

Every update of a Triton metric is a round trip from the model's process to the server, so the hot path only adds
numbers up here and a thread of the exporter carries them over a few times a second. Each process labels its series
with an `instance` of its own: Triton deletes a series when the first of the instances that made it goes.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

LATENCY_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
TOKEN_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5)
EXPORT_SECONDS: Final = 0.25

Labels = tuple[tuple[str, str], ...]


class Counter:
    """A sum that only grows."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.value = 0.0
        self._exported = 0.0

    def increment(self, amount: float = 1.0) -> None:
        """Adds `amount`, at least 0."""
        with self._lock:
            self.value += amount

    def reach(self, total: float) -> None:
        """Raises the sum to `total`, for what is counted elsewhere."""
        with self._lock:
            self.value = max(self.value, total)

    def fresh(self) -> float:
        """What was added since the last call."""
        with self._lock:
            added = self.value - self._exported
            self._exported = self.value
        return added


class Gauge:
    """A value that goes up and down."""

    def __init__(self) -> None:
        self.value = 0.0

    def set(self, value: float) -> None:
        """Replaces the value."""
        self.value = value


class Histogram:
    """Observations by bucket."""

    def __init__(self, buckets: Sequence[float]) -> None:
        self.buckets = tuple(buckets)
        self.observations: deque[float] = deque(maxlen=65536)

    def observe(self, value: float) -> None:
        """Counts one observation."""
        self.observations.append(value)

    def fresh(self) -> list[float]:
        """Observations since the last call."""
        taken = []
        while self.observations:
            taken.append(self.observations.popleft())
        return taken


class Metrics(Protocol):
    """Where the series of one process live."""

    def counter(self, name: str, description: str, **labels: str) -> Counter:
        """The counter of these labels, the same one for the same name and labels."""

    def gauge(self, name: str, description: str, **labels: str) -> Gauge:
        """The gauge of these labels."""

    def histogram(self, name: str, description: str, buckets: Sequence[float], **labels: str) -> Histogram:
        """The histogram of these labels."""


class MemoryMetrics:
    """Series in memory only; what the exporter reads, and what tests look at."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.series: dict[tuple[str, Labels], Counter | Gauge | Histogram] = {}
        self.descriptions: dict[str, str] = {}

    def counter(self, name: str, description: str, **labels: str) -> Counter:
        """See `Metrics`."""
        found = self._series(name, description, labels, Counter)
        assert isinstance(found, Counter)  # noqa: S101 -- one name is one kind
        return found

    def gauge(self, name: str, description: str, **labels: str) -> Gauge:
        """See `Metrics`."""
        found = self._series(name, description, labels, Gauge)
        assert isinstance(found, Gauge)  # noqa: S101 -- one name is one kind
        return found

    def histogram(self, name: str, description: str, buckets: Sequence[float], **labels: str) -> Histogram:
        """See `Metrics`."""
        found = self._series(name, description, labels, lambda: Histogram(buckets))
        assert isinstance(found, Histogram)  # noqa: S101 -- one name is one kind
        return found

    def value(self, name: str, **labels: str) -> float:
        """The value of a counter or gauge, 0 when it does not exist."""
        found = self.series.get((name, tuple(sorted(labels.items()))))
        return found.value if isinstance(found, Counter | Gauge) else 0.0

    def _series(
        self, name: str, description: str, labels: dict[str, str], make: Callable[[], Counter | Gauge | Histogram]
    ) -> Counter | Gauge | Histogram:
        key = (name, tuple(sorted(labels.items())))
        with self._lock:
            if key not in self.series:
                self.series[key] = make()
                self.descriptions[name] = description
            return self.series[key]


class TritonMetrics(MemoryMetrics):
    """Series carried to Triton's endpoint by a thread. `labels` and a unique `instance` are added to every series.

    `metric_family` is `pb_utils.MetricFamily`, which exists only inside Triton's Python backend.
    """

    def __init__(self, metric_family: Any, labels: dict[str, str], period: float = EXPORT_SECONDS) -> None:
        super().__init__()
        self._metric_family = metric_family
        self._labels = {**labels, "instance": f"{os.getpid()}-{secrets.token_hex(3)}"}
        self._period = period
        self._families: dict[str, Any] = {}
        self._exported: dict[tuple[str, Labels], Any] = {}
        self._told: dict[tuple[str, Labels], float] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Exports once more and drops the series."""
        self._ended.set()
        self._thread.join(timeout=5)
        self._exported.clear()  # metrics before their families
        self._families.clear()

    def _run(self) -> None:
        while not self._ended.wait(self._period):
            self._export()
        self._export()

    def _export(self) -> None:
        with self._lock:
            series = list(self.series.items())
        for key, instrument in series:
            metric = self._exported.get(key)
            if metric is None:
                metric = self._exported[key] = self._make(key[0], key[1], instrument)
            match instrument:
                case Counter():
                    if added := instrument.fresh():
                        metric.increment(added)
                case Gauge():
                    if self._told.get(key) != instrument.value:  # most stand still, and each call is a round trip
                        metric.set(instrument.value)
                        self._told[key] = instrument.value
                case Histogram():
                    for value in instrument.fresh():
                        metric.observe(value)

    def _make(self, name: str, labels: Labels, instrument: Counter | Gauge | Histogram) -> Any:
        kind = {
            Counter: self._metric_family.COUNTER,
            Gauge: self._metric_family.GAUGE,
            Histogram: self._metric_family.HISTOGRAM,
        }[type(instrument)]
        if name not in self._families:
            self._families[name] = self._metric_family(name=name, description=self.descriptions[name], kind=kind)
        every = {**self._labels, **dict(labels)}
        if isinstance(instrument, Histogram):
            return self._families[name].Metric(labels=every, buckets=list(instrument.buckets))
        return self._families[name].Metric(labels=every)
