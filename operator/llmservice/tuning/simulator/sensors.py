"""Signals of a simulated service, made as the real ones are: scrapes of counters that only grow, then differences.

Latencies are told in histograms with the buckets of the gate's own, so that a quantile is as rough as it is in life.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmservice.tuning.measured import (
    MISSING,
    Batches,
    Measured,
    PodReport,
    Quantiles,
    Replicas,
    Signals,
    Steps,
    UnderWay,
    Validity,
)
from llmservice.tuning.simulator.accelerate import compiled
from llmservice.tuning.simulator.batch_kernel import BatchState
from llmservice.tuning.simulator.counting import count_requests
from llmservice.tuning.simulator.kinds import TokenKind
from llmservice.tuning.simulator.plant import Plant
from llmservice.tuning.simulator.replica import Replica
from llmservice.tuning.simulator.token_kernel import CONTEXT

Floats = NDArray[np.float64]

SCRAPE: Final = 15.0
STALE_AFTER: Final = 2 * SCRAPE
LATENCY_EDGES: Final = np.array([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0])
TOKEN_EDGES: Final = np.array(
    [0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5]
)
"""Seconds: the buckets of the gate's histograms."""
LATENCY, FIRST_TOKEN, PER_TOKEN, QUEUE = range(4)
"""Rows of the histograms."""


@dataclass(frozen=True)
class Sample:
    """One pod's counters at one scrape; all only grow, but for the gauges."""

    at: float
    arrived: float
    completed: float
    sums: Floats
    """Over completed requests: prompt tokens, output tokens, seconds waited, seconds computed."""
    counts: Floats
    seconds: Floats
    histograms: Floats
    pending: float
    running: float
    kv_usage: float


@dataclass
class Counters:
    """What a pod has counted since it started."""

    sums: Floats = field(default_factory=lambda: np.zeros(4))
    histograms: Floats = field(default_factory=lambda: np.zeros((4, max(len(LATENCY_EDGES), len(TOKEN_EDGES)) + 2)))
    """Counts by bucket, each row's last entry the sum of seconds."""

    def add(self, rows: Floats, jit: bool) -> None:
        """Counts finished requests."""
        kernel = compiled(count_requests) if jit else count_requests
        kernel(rows, LATENCY_EDGES, TOKEN_EDGES, self.sums, self.histograms)


class Faults:
    """What is wrong with the measuring; nothing, here. Subclasses change what a scrape brings."""

    def seen(self, at: float, name: str, sample: Sample) -> Sample | None:
        """What the scrape at `at` of pod `name` brings; None where it brings nothing."""
        _ = at, name
        return sample

    def signals(self, at: float, signals: Signals) -> Signals:
        """What the tuner is told instead of `signals`."""
        _ = at
        return signals


@dataclass
class Sensors:
    """Scrapes a plant and makes signals of what it saw."""

    plant: Plant
    faults: Faults = field(default_factory=Faults)
    blind: bool = False
    """Nothing is scraped."""
    _counters: dict[str, Counters] = field(default_factory=dict)
    _seen: dict[str, list[Sample]] = field(default_factory=dict)
    """By pod: the last sample of the window before, then this window's."""
    _ready_names: set[str] = field(default_factory=set)
    _last_arrivals: tuple[float, float] | None = None
    _window_start: float = 0.0

    def scrape(self) -> None:
        """Reads every replica's counters now."""
        now = self.plant.clock
        for one in self.plant.replicas:
            if self.blind:
                one.fresh.clear()
                continue
            counters = self._counters.setdefault(one.name, Counters())
            for rows in one.fresh:
                counters.add(rows, one.jit)
            one.fresh.clear()
            if one.ready > now:
                continue
            sample = self.faults.seen(now, one.name, self._sample(one, counters))
            if sample is not None:
                seen = self._seen.setdefault(one.name, [])
                if not seen and one.ready >= self._window_start:
                    seen.append(_beginning(sample, one.ready))
                seen.append(sample)

    def window(self) -> Signals:
        """The signals since the last call, which begins a new window."""
        now = self.plant.clock
        ready = self.plant.ready()
        if self.blind:
            return Signals(SCRAPE, self.plant.knobs_in_force(), Replicas(ready=len(ready)))
        names = {one.name for one in ready}
        pods = tuple(self._pod(one, now) for one in ready)
        parts = [part for one in ready if (part := self._part(one.name, now)) is not None]
        signals = Signals(
            window_seconds=now - self._window_start,
            knobs=self.plant.knobs_in_force(),
            replicas=self._replicas(ready, now),
            pods=pods,
            under_way=(UnderWay.LIVE_CHANGE,) if self.plant.changing else (),
        )
        signals = self._measured(signals, parts, len(ready), now)
        self._forget(names)
        self._window_start = now
        return self.faults.signals(now, signals)

    def _sample(self, one: Replica, counters: Counters) -> Sample:
        state = one.state
        kv = 0.0
        if not isinstance(state, BatchState) and isinstance(self.plant.pace.kind, TokenKind):
            kv = float(state.scalars[CONTEXT]) / self.plant.pace.kind.kv_tokens
        return Sample(
            at=self.plant.clock,
            arrived=one.arrived,
            completed=one.completed,
            sums=counters.sums.copy(),
            counts=state.counts.copy(),
            seconds=state.seconds.copy(),
            histograms=counters.histograms.copy(),
            pending=len(one.waiting),
            running=one.inside,
            kv_usage=kv,
        )

    def _pod(self, one: Replica, now: float) -> PodReport:
        samples = self._seen.get(one.name, [])
        age = now - samples[-1].at if samples else np.inf
        validity = Validity.FRESH if abs(age) <= STALE_AFTER else Validity.STALE if samples else Validity.MISSING
        return PodReport(one.name, validity, now - one.ready)

    def _part(self, name: str, now: float) -> tuple[Sample, Sample, list[Sample]] | None:
        """First and last sample of a pod within the window, and all of them; None if they say nothing of it."""
        samples = self._seen.get(name, [])
        if len(samples) < 2 or now - samples[-1].at > STALE_AFTER or samples[-1].at <= samples[0].at:
            return None
        if any(later.arrived < earlier.arrived for earlier, later in pairwise(samples)):
            return None  # began again: this interval of this pod says nothing
        return samples[0], samples[-1], samples

    def _span(self, first: Sample, last: Sample) -> float:
        """Seconds that a pod's growth is of: before it was ready, within the window, nothing came to it."""
        return last.at - (min(first.at, self._window_start) if first.arrived == 0 else first.at)

    def _measured(
        self, signals: Signals, parts: list[tuple[Sample, Sample, list[Sample]]], ready: int, now: float
    ) -> Signals:
        if not parts or 2 * len(parts) < ready:
            if self._last_arrivals is None:
                return signals
            at, value = self._last_arrivals
            return replace(signals, arrivals=Measured.stale(value, age=now - at))
        scale = ready / len(parts)
        rate = scale * sum((last.arrived - first.arrived) / self._span(first, last) for first, last, _ in parts)
        self._last_arrivals = (now, rate)
        sums = np.sum([last.sums - first.sums for first, last, _ in parts], axis=0)
        done = sum(last.completed - first.completed for first, last, _ in parts)
        counts = np.sum([last.counts - first.counts for first, last, _ in parts], axis=0)
        seconds = np.sum([last.seconds - first.seconds for first, last, _ in parts], axis=0)
        sizes = [size for size in range(1, len(counts)) if counts[size] > 1e-9]
        samples = min(len(all_) - 1 for _, _, all_ in parts)
        per = [last for _, last, _ in parts]
        grown = np.sum([last.histograms - first.histograms for first, last, _ in parts], axis=0)
        edges = {PER_TOKEN: TOKEN_EDGES}
        quantiles = [_quantiles(grown[row], edges.get(row, LATENCY_EDGES)) for row in range(4)]
        whole = isinstance(self.plant.replicas[0].state, BatchState)
        return replace(
            signals,
            arrivals=Measured.of(rate, samples=samples),
            arrival_counts=_by_scrape([all_ for _, _, all_ in parts], scale),
            rejections=Measured.of(0.0),
            failures=Measured.of(0.0),
            completions=Measured.of(scale * sum((b.completed - a.completed) / self._span(a, b) for a, b, _ in parts)),
            queue_depth=Measured.of(scale * sum(one.pending for one in per)),
            steps=tuple(Steps(size, float(counts[size]), float(seconds[size])) for size in sizes),
            batches=tuple(Batches(size, float(counts[size])) for size in sizes) if whole else (),
            latency=quantiles[LATENCY],
            time_to_first_token=MISSING_QUANTILES if whole else quantiles[FIRST_TOKEN],
            per_output_token=MISSING_QUANTILES if whole else quantiles[PER_TOKEN],
            queue_seconds=quantiles[QUEUE],
            input_tokens=Measured.of(sums[0] / done) if done and not whole else MISSING,
            output_tokens=Measured.of(sums[1] / done) if done and not whole else MISSING,
            kv_usage=MISSING if whole else Measured.of(max(one.kv_usage for one in per)),
            waiting=Measured.of(0.0),
            running=Measured.of(scale * sum(one.running for one in per)),
        )

    def _replicas(self, ready: Sequence[Replica], now: float) -> Replicas:
        coming = [one for one in self.plant.wanted() if one.ready > now]
        fresh = [one for one in ready if one.created > 0 and one.name not in self._ready_names]
        self._ready_names = {one.name for one in ready}
        return Replicas(
            ready=len(ready),
            starting=tuple(now - one.created for one in coming if one.scheduled <= now),
            pending=tuple(now - one.created for one in coming if one.scheduled > now),
            terminating=sum(one.draining_since is not None for one in self.plant.replicas),
            cold_starts=tuple(one.ready - one.created for one in fresh),
        )

    def _forget(self, names: set[str]) -> None:
        self._seen = {name: samples[-1:] for name, samples in self._seen.items() if name in names}
        present = {one.name for one in self.plant.replicas}
        self._counters = {name: kept for name, kept in self._counters.items() if name in present}


MISSING_QUANTILES: Final = Quantiles()


def _beginning(sample: Sample, ready: float) -> Sample:
    """What a new pod's counters were when it became ready: nothing."""
    return replace(
        sample,
        at=ready,
        arrived=0,
        completed=0,
        sums=np.zeros_like(sample.sums),
        counts=np.zeros_like(sample.counts),
        seconds=np.zeros_like(sample.seconds),
        histograms=np.zeros_like(sample.histograms),
    )


def _by_scrape(pods: list[list[Sample]], scale: float) -> tuple[float, ...]:
    """Arrivals between one scrape and the next, over all pods; nothing where a pod missed one of the scrapes."""
    moments = max(([sample.at for sample in samples] for samples in pods), key=len)
    totals = np.zeros(len(moments))
    for samples in pods:
        arrived = {sample.at: sample.arrived for sample in samples}
        began = samples[0].at if samples[0].arrived == 0 else -np.inf
        for place, moment in enumerate(moments):
            if moment in arrived:
                totals[place] += arrived[moment]
            elif moment > began:
                return ()
    return tuple(float(grown) for grown in scale * np.diff(totals))


def _quantiles(counts: Floats, edges: Floats) -> Quantiles:
    """Quantiles linear inside a bucket, as Prometheus computes them; in the last bucket its lower end."""
    cumulative = np.cumsum(counts[: len(edges) + 1])
    total = float(cumulative[-1])
    if total <= 0:
        return MISSING_QUANTILES

    def at(quantile: float) -> Measured:
        rank = quantile * total
        bucket = int(np.searchsorted(cumulative, rank))
        if bucket == len(edges):
            return Measured.of(float(edges[-1]), samples=int(total))
        below, low = (cumulative[bucket - 1], edges[bucket - 1]) if bucket else (0.0, 0.0)
        inside = cumulative[bucket] - below
        value = low + (edges[bucket] - low) * ((rank - below) / inside if inside > 0 else 1.0)
        return Measured.of(float(value), samples=int(total))

    mean = Measured.of(float(counts[-1]) / total, samples=int(total))
    return Quantiles(mean=mean, p50=at(0.5), p90=at(0.9), p99=at(0.99))
