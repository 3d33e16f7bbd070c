"""From the pods' histories to the signals of one window. Pure: the only clock is the frame's.

A figure over all replicas is the sum over the pods that were read, scaled up to those that are ready, as long as two of
three were read; with fewer it is missing, never smaller. A figure is stale when no pod was read lately.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from llmservice.signals.adapters import Adapter, Selector
from llmservice.signals.canary import canary_report
from llmservice.signals.frame import Frame, ReadyPod
from llmservice.signals.pod_window import PodWindow, added
from llmservice.signals.series import PodHistory, percentile
from llmservice.signals.trust import contradictions
from llmservice.tuning.measured import (
    MISSING,
    UNKNOWN_QUANTILES,
    Batches,
    Measured,
    PodReport,
    Quantiles,
    RequestCounters,
    Signals,
    Steps,
    Validity,
)

QUORUM: Final = 2 / 3
"""Share of the ready pods that must have been read. One that does not answer must not stop everything (aibrix#617)."""


def measure(adapter: Adapter, frame: Frame, histories: Mapping[str, PodHistory]) -> Signals:
    """The signals of `frame` from the histories of its pods, by pod name."""
    reports = tuple(_report(pod, frame, histories.get(pod.name)) for pod in frame.pods)
    blank = Signals(
        window_seconds=frame.seconds,
        knobs=frame.knobs,
        replicas=frame.replicas,
        pods=reports,
        free_accelerators=frame.free_accelerators,
        under_way=frame.under_way,
        replicas_owner=frame.replicas_owner,
        canary_knobs=frame.canary.knobs if frame.canary else None,
    )
    lately = _quorum(frame, histories, lambda pod: _is_read(pod, frame, histories))
    if lately is None:
        return replace(blank, queue_depth=_last_seen_queue(adapter, frame, histories))
    levels = _levels(blank, adapter, lately)
    fresh = {report.name for report in reports if report.validity is Validity.FRESH}
    covered = _quorum(frame, histories, lambda pod: pod.name in fresh)
    if covered is None:
        return levels
    signals = _flows(levels, adapter, covered, frame)
    if frame.canary is not None:
        windows = {pod.name: _window(pod, frame, histories[pod.name]) for pod in frame.pods if pod.name in fresh}
        signals = replace(signals, canary=canary_report(adapter, frame.canary, windows))
    return replace(signals, contradictions=contradictions(signals))


def _quorum(frame: Frame, histories: Mapping[str, PodHistory], counts: Callable[[ReadyPod], bool]) -> _All | None:
    """The windows of the pods that count; None where they are too few to speak for all.

    A pod that just began, and was not read yet, did hardly anything: it is not waited for.
    """
    windows = [_window(pod, frame, histories[pod.name]) for pod in frame.pods if counts(pod)]
    expected = sum(counts(pod) or frame.is_expected(pod) for pod in frame.pods)
    return _All(windows, expected) if windows and len(windows) >= QUORUM * expected else None


@dataclass(frozen=True)
class _All:
    """The windows of the pods that were read, and how many should have been."""

    windows: Sequence[PodWindow]
    expected: int

    def part(self, since: float, until: float) -> _All:
        return _All([window.part(since, until) for window in self.windows], self.expected)

    def total(self, take: Callable[[PodWindow], float | None]) -> float | None:
        """A sum over all replicas; None unless every pod that was read has it."""
        values = [take(window) for window in self.windows]
        known = [value for value in values if value is not None]
        return sum(known) * self.expected / len(values) if values and len(known) == len(values) else None

    def grown(self, selector: Selector | None) -> float | None:
        return None if selector is None else self.total(lambda window: window.grown(selector))

    def several(self, selectors: Sequence[Selector]) -> float:
        """Growth of counters that need not all be there: reasons and outcomes appear with their first request."""
        return sum(self.grown(selector) or 0.0 for selector in selectors)

    def level(self, selectors: Sequence[Selector], at: float | None = None) -> float | None:
        parts = [self.total(_level_of(selector, at)) for selector in selectors]
        known = [part for part in parts if part is not None]
        return sum(known) if len(known) == len(parts) else None


def _level_of(selector: Selector, at: float | None) -> Callable[[PodWindow], float | None]:
    return lambda window: window.level(selector, window.until if at is None else at)


def _levels(blank: Signals, adapter: Adapter, pods: _All) -> Signals:
    """What one look tells: gauges."""
    count = len(pods.windows)
    return replace(
        blank,
        queue_depth=_figure(pods.level(adapter.queue), count),
        kv_usage=_fullest(adapter, pods),
        waiting=_figure(pods.level([adapter.waiting]) if adapter.waiting else None, count),
        running=_figure(pods.level([adapter.running]) if adapter.running else None, count),
    )


def _flows(levels: Signals, adapter: Adapter, pods: _All, frame: Frame) -> Signals:
    """What needs a look before the window and one at its end: rates, steps and latencies."""
    ended = pods.grown(adapter.completed)
    came = _arrived(adapter, pods, frame.since, frame.until)
    rate = _rate(frame.seconds, len(pods.windows))
    return replace(
        levels,
        arrivals=rate(came),
        arrival_counts=_by_scrape(adapter, pods, frame) if came is not None else (),
        rejections=rate(pods.several(adapter.rejected) if ended is not None else None),
        failures=rate(pods.several(adapter.failed) if ended is not None else None),
        completions=rate(ended),
        generated=rate(pods.grown(adapter.generated_tokens)),
        steps=_steps(adapter, pods),
        request_counters=_request_counters(adapter, pods),
        batches=_batches(adapter, pods),
        latency=_quantiles(adapter.latency, pods),
        time_to_first_token=_quantiles(adapter.time_to_first_token, pods),
        per_output_token=_quantiles(adapter.per_output_token, pods),
        queue_seconds=_quantiles(adapter.queue_seconds, pods),
        input_tokens=_per(pods.grown(adapter.prompt_tokens), ended),
        output_tokens=_per(pods.grown(adapter.generated_tokens), ended),
    )


def _arrived(adapter: Adapter, pods: _All, since: float, until: float) -> float | None:
    """Requests that came: those that ended, and by how many more are in the house than before.

    Completions alone are not the load when a queue builds up (server#5927). Gauges and counters are not exported at the
    same instant, so a quiet moment may come out below zero, which it cannot be.
    """
    part = pods.part(since, until)
    ended = part.grown(adapter.completed)
    house = (*adapter.queue, *adapter.inside)
    before, after = part.level(house, since), part.level(house, until)
    if ended is None or after is None:
        return None
    others = part.several((*adapter.failed, *adapter.rejected, *adapter.abandoned))
    return max(0.0, ended + others + after - (before or 0.0))


def _by_scrape(adapter: Adapter, pods: _All, frame: Frame) -> tuple[float, ...]:
    parts = max(1, round(frame.seconds / frame.scrape_interval))
    step = frame.seconds / parts
    ends = [frame.since + step * index for index in range(parts)] + [frame.until]
    counts = [_arrived(adapter, pods, since, until) for since, until in pairwise(ends)]
    return tuple(count for count in counts if count is not None)


def _steps(adapter: Adapter, pods: _All) -> tuple[Steps, ...]:
    if adapter.steps is None or adapter.step_seconds is None:
        return ()
    counts = added([window.grown_by(adapter.steps, "batch_size") for window in pods.windows])
    seconds = added([window.grown_by(adapter.step_seconds, "batch_size") for window in pods.windows])
    return tuple(Steps(int(size), counts[size], seconds[size]) for size in sorted(counts, key=int) if size in seconds)


def _request_counters(adapter: Adapter, pods: _All) -> RequestCounters | None:
    """Triton's counters by request, of the pods that were read; None where it does not count, or nothing ran."""
    counted, ran = pods.grown(adapter.counted), pods.grown(adapter.executions)
    computed = pods.grown(adapter.compute_microseconds)
    if not counted or not ran or computed is None:
        return None
    return RequestCounters(requests=counted, executions=ran, compute_seconds=computed / 1e6)


def _batches(adapter: Adapter, pods: _All) -> tuple[Batches, ...]:
    if adapter.batches is None:
        return ()
    counts = added([window.grown_by(adapter.batches, "batch_size") for window in pods.windows])
    return tuple(Batches(int(size), counts[size]) for size in sorted(counts, key=int))


def _quantiles(selector: Selector | None, pods: _All) -> Quantiles:
    if selector is None:
        return UNKNOWN_QUANTILES
    merged = added([{str(end): grown for end, grown in one.buckets(selector).items()} for one in pods.windows])
    counts = {float(end): grown for end, grown in merged.items()}
    number = sum(window.total(selector, "count") for window in pods.windows)
    if not counts or number <= 0:
        return UNKNOWN_QUANTILES
    seconds = sum(window.total(selector, "sum") for window in pods.windows)

    def at(quantile: float) -> Measured:
        found = percentile(counts, quantile)
        return MISSING if found is None else Measured.of(found, samples=round(number))

    return Quantiles(Measured.of(seconds / number, samples=round(number)), at(0.5), at(0.9), at(0.99))


def _fullest(adapter: Adapter, pods: _All) -> Measured:
    if adapter.kv_usage is None:
        return MISSING
    means = [window.mean_level(adapter.kv_usage) for window in pods.windows]
    known = [mean for mean in means if mean is not None]
    return Measured.of(max(known), samples=len(known)) if known else MISSING


def _rate(seconds: float, samples: int) -> Callable[[float | None], Measured]:
    return lambda grown: _figure(None if grown is None else grown / seconds, samples)


def _figure(value: float | None, samples: int) -> Measured:
    return MISSING if value is None else Measured.of(value, samples=samples)


def _per(total: float | None, count: float | None) -> Measured:
    """A mean per request; missing without requests: there is no mean of nothing."""
    return MISSING if total is None or not count else Measured.of(total / count, samples=round(count))


def _report(pod: ReadyPod, frame: Frame, history: PodHistory | None) -> PodReport:
    newest = history.newest() if history else None
    if history is None or newest is None:
        return PodReport(pod.name, Validity.MISSING, pod.ready_for)
    if newest < frame.oldest_sample:
        return PodReport(pod.name, Validity.STALE, pod.ready_for)
    covered = frame.seconds > 0 and frame.is_covered(pod, history)
    return PodReport(pod.name, Validity.FRESH if covered else Validity.MISSING, pod.ready_for)


def _is_read(pod: ReadyPod, frame: Frame, histories: Mapping[str, PodHistory]) -> bool:
    """Whether the pod was read lately, however short a time before the window."""
    history = histories.get(pod.name)
    newest = history.newest() if history else None
    return newest is not None and newest >= frame.oldest_sample


def _window(pod: ReadyPod, frame: Frame, history: PodHistory) -> PodWindow:
    return PodWindow(history, frame.service, frame.since, frame.until, from_zero=frame.is_covered(pod, history))


def _last_seen_queue(adapter: Adapter, frame: Frame, histories: Mapping[str, PodHistory]) -> Measured:
    """The queue as it was last seen, so that people see how old what they see is."""
    newest = [history.newest() for pod in frame.pods if (history := histories.get(pod.name)) is not None]
    seen = [moment for moment in newest if moment is not None]
    if not seen or len(seen) < len(frame.pods):
        return MISSING
    windows = [_window(pod, frame, histories[pod.name]) for pod in frame.pods]
    depth = _All(windows, len(frame.pods)).level(adapter.queue)
    return MISSING if depth is None else Measured.stale(depth, age=frame.until - min(seen))
