"""How much burstier than Poisson the arrivals are, and how high the rate is that single requests meet."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import log, sqrt
from typing import Final

from llmservice.tuning.memory import Memory

HALF_LIFE: Final = 3600.0
RATIOS: Final = 24
"""Bins of the ratio between a part's rate and its window's: 20 % each, from 0.5 on."""
BIN_RATIO: Final = 1.2
LOWEST: Final = 0.5
ENOUGH: Final = 12.0
"""Parts before anything but Poisson is believed."""
LEVELS: Final = (0.55, 0.3, 0.1, 0.05)
"""Shares of time by which the rate distribution is told, from the quiet to the bursty."""


class Burst(Memory):
    """Decayed sums over parts of windows: how many, their expected and squared differences, and ratios by bin."""

    parts: float = 0.0
    expected: float = 0.0
    squares: float = 0.0
    ratios: tuple[float, ...] = (0.0,) * RATIOS


def learn_burst(memory: Burst, counts: Sequence[float], rate: float, window: float) -> Burst:
    """`memory` after a window's arrivals by equal parts; `rate` is what was expected, in requests/s.

    Differences of neighbours are taken for the variance, so that a trend is no burst.
    """
    if len(counts) < 2 or rate <= 0:
        return memory
    keep = 0.5 ** (window / HALF_LIFE)
    part = window / len(counts)
    mean = sum(counts) / len(counts)
    squares = sum((later - earlier) ** 2 for earlier, later in pairwise(counts)) / 2
    squares *= len(counts) / (len(counts) - 1)
    ratios = [keep * old for old in memory.ratios] if len(memory.ratios) == RATIOS else [0.0] * RATIOS
    for count in counts:
        ratios[_bin(count / (rate * part))] += 1.0
    return Burst(
        parts=keep * memory.parts + len(counts),
        expected=keep * memory.expected + mean * len(counts),
        squares=keep * memory.squares + squares,
        ratios=tuple(ratios),
    )


def dispersion(memory: Burst) -> float:
    """Index of dispersion for counts over a part of a window: variance over mean. 1 is Poisson, and the least."""
    if memory.parts < ENOUGH or memory.expected <= 0:
        return 1.0
    return max(1.0, memory.squares / memory.expected)


def rate_variance(memory: Burst) -> float:
    """Relative variance of the rate from part to part, what Poisson arrivals show by themselves taken out."""
    if memory.parts < ENOUGH or memory.expected <= 0:
        return 0.0
    return (dispersion(memory) - 1.0) * memory.parts / memory.expected


def rate_factors(memory: Burst) -> tuple[tuple[float, float], ...]:
    """(share of time, factor on the mean rate) over which single requests are spread; mean factor 1.

    What Poisson arrivals alone would show is taken out: a queueing model has that already.
    """
    index = dispersion(memory)
    excess = 1.0 - 1.0 / index
    if excess < 0.1 or memory.parts < ENOUGH:
        return ((1.0, 1.0),)
    middles = [LOWEST * BIN_RATIO ** (place + 0.5) / BIN_RATIO for place in range(RATIOS)]
    middles[0] = 0.25
    total = sum(memory.ratios)
    found: list[tuple[float, float]] = []
    place, left = 0, memory.ratios[0] / total
    for level in LEVELS:
        need, weighted = level, 0.0
        while need > 1e-9 and place < RATIOS:
            taken = min(need, left)
            weighted += taken * middles[place]
            need, left = need - taken, left - taken
            if left <= 1e-9:
                place += 1
                left = memory.ratios[place] / total if place < RATIOS else 0.0
        found.append((level, weighted / level))
    mean = sum(level * factor for level, factor in found)
    return tuple((level, 1.0 + (factor / mean - 1.0) * sqrt(excess)) for level, factor in found)


def _bin(ratio: float) -> int:
    if ratio <= LOWEST:
        return 0
    return min(RATIOS - 1, 1 + int(log(ratio / LOWEST) / log(BIN_RATIO)))
