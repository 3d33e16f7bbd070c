"""From two samples of every pod to the figures of the columns. Pure. Missing is not zero."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from llmservice.api.status import SignalsStatus
from llmservice.signals.scrape import Sample
from llmservice.signals.series import percentile

SOURCE = "Pods"


@dataclass(frozen=True)
class Reading:
    """What the ready pods said at one moment; None for a pod that did not answer. `at` is monotonic seconds."""

    at: float
    samples: Mapping[str, Sample | None]


def columns(before: Reading | None, now: Reading, moment: datetime) -> SignalsStatus | None:
    """The figures over all pods, rounded as they are shown; None where no pod was asked.

    A sum is only given when every pod gave its part. Rates and the percentile are over the time since `before`; a pod
    that is new or began again since then counts from zero.
    """
    if not now.samples:
        return None
    samples = list(now.samples.values())
    waiting = [sample.waiting if sample else None for sample in samples]
    return SignalsStatus(
        queue_depth=_whole_sum(waiting),
        time_to_first_token_p99=_first_token_p99(before, now),
        tokens_per_second=_token_rate(before, now),
        source=SOURCE,
        observed_at=moment,
    )


def round_to(value: float, digits: int) -> float:
    """`value` with that many significant digits, so that noise does not become a write."""
    if value == 0:
        return 0.0
    return round(value, digits - 1 - math.floor(math.log10(abs(value))))


def _whole_sum(parts: list[float | None]) -> float | None:
    known = [part for part in parts if part is not None]
    return round(sum(known)) if len(known) == len(parts) else None


def _token_rate(before: Reading | None, now: Reading) -> float | None:
    if before is None or now.at <= before.at:
        return None
    grown = 0.0
    for pod, sample in now.samples.items():
        if sample is None:
            return None
        if sample.generated_tokens is None:
            continue  # a counter appears with its first token
        grown += _growth(_earlier(before, pod, "generated_tokens"), sample.generated_tokens)
    return round_to(grown / (now.at - before.at), 2)


def _first_token_p99(before: Reading | None, now: Reading) -> timedelta | None:
    if before is None:
        return None
    merged: dict[float, float] = {}
    for pod, sample in now.samples.items():
        earlier = before.samples.get(pod)
        for end, count in (sample.first_tokens if sample else {}).items():
            last = earlier.first_tokens.get(end, 0.0) if earlier else 0.0
            merged[end] = merged.get(end, 0.0) + _growth(last, count)
    seconds = percentile(merged, 0.99)
    return None if seconds is None else timedelta(milliseconds=round_to(seconds * 1000, 2))


def _earlier(before: Reading, pod: str, name: str) -> float:
    sample = before.samples.get(pod)
    return float(getattr(sample, name) or 0.0) if sample else 0.0


def _growth(last: float, current: float) -> float:
    """How much a counter grew; one that began again has grown from zero."""
    return current - last if current >= last else current
