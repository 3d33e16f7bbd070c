"""Closed forms of greedy batching on one instance: what the simulated batcher is checked against.

t(b) = a + c·b, arrivals Poisson with rate λ, ρ = λ·c < 1, largest batch beyond reach. Seconds and requests/s.
"""

from __future__ import annotations

import math
from typing import Final

POISSON_TAIL: Final = 1.35
"""p99 is about this times 2·t* under Poisson arrivals (1.1 at low load, 1.36 at ρ = 0.75, simulated)."""


def batch_seconds(overhead: float, per_item: float, rate: float) -> float:
    """t* = a / (1 - λc): the fixed point of a batch that takes in all that came during the one before.

    Infinite where ρ >= 1.
    """
    load = rate * per_item
    return overhead / (1.0 - load) if load < 1.0 else math.inf


def mean_latency_bounds(overhead: float, per_item: float, rate: float) -> tuple[float, float]:
    """(φ0, φ1), two upper bounds of the mean latency; the smaller one is within 8 % of it from ρ = 0.1 to 0.9.

    Inoue, "Queueing analysis of GPU-based inference servers with dynamic batching", Performance Evaluation 2021
    (arXiv 1912.06322), with t(b) = c·b + a.
    """
    load = rate * per_item
    if load >= 1.0:
        return math.inf, math.inf
    zero = (per_item + overhead) / (2 * (1 - load)) * (1 + 2 * rate * overhead + (1 - rate * overhead) / (1 + load))
    one = 1.5 * overhead / (1 - load) + 0.5 * per_item * (load + 2) / (1 - load**2)
    return zero, one


def mean_latency(overhead: float, per_item: float, rate: float) -> float:
    """The smaller of Inoue's bounds."""
    return min(mean_latency_bounds(overhead, per_item, rate))


def tail_latency(overhead: float, per_item: float, rate: float, tail: float = POISSON_TAIL) -> float:
    """The 99th percentile by the tail rule `tail · 2 · t*`."""
    return tail * 2.0 * batch_seconds(overhead, per_item, rate)


def largest_rate(overhead: float, per_item: float, seconds: float, tail: float = POISSON_TAIL) -> float:
    """Most requests/s whose 99th percentile is at most `seconds`, by the tail rule; 0 where none is."""
    if overhead <= 0:
        return 1.0 / per_item if per_item > 0 else math.inf
    room = 1.0 - 2.0 * tail * overhead / seconds
    return max(0.0, room) / per_item if per_item > 0 else (math.inf if room > 0 else 0.0)
