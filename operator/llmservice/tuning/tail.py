"""How far the model's latencies are off, learnt per metric: a factor on them, and the bound that holds in 95 %."""

from __future__ import annotations

from math import exp, log, sqrt
from typing import Annotated, Final

from llmservice.tuning.memory import Memory, newest

RATE: Final = 0.15
"""Weight of one window with enough requests."""
ENOUGH: Final = 100.0
MOST: Final = log(4.0)
"""A model that is off by more is not corrected but distrusted."""
RESIDUALS_KEPT: Final = 200
LEAST_RESIDUALS: Final = 20
FIRST_SPREAD: Final = 0.1
SHAPE: Final = 0.025
"""By what the simulated tail itself is off, relatively, with exact service times."""
LEAST_SHARE: Final = 0.9
COVERED: Final = 1.645
"""Standard deviations that 95 % of a normal distribution lie below."""


class Correction(Memory):
    """Of one metric: the logarithm of measured over modelled mean, averaged, and by window what was left of it."""

    metric: str
    bias: float = 0.0
    windows: float = 0.0
    residuals: Annotated[tuple[float, ...], newest(RESIDUALS_KEPT)] = ()


def learn_bias(memory: Correction, measured: float, modelled: float, requests: float) -> Correction:
    """`memory` after a window with `requests` whose mean was `measured` and not `modelled`."""
    if measured <= 0 or modelled <= 0:
        return memory
    weight = RATE * min(1.0, requests / ENOUGH)
    weight = max(weight, min(1.0, requests / ENOUGH) / (1.0 + memory.windows))
    miss = max(-2 * MOST, min(2 * MOST, log(measured / modelled)))
    left = (*memory.residuals, miss - memory.bias)[-RESIDUALS_KEPT:] if memory.windows >= 1 else memory.residuals
    return memory.model_copy(
        update={
            "bias": memory.bias + weight * (miss - memory.bias),
            "windows": memory.windows + weight / RATE,
            "residuals": left,
        }
    )


def factor(memory: Correction) -> float:
    """What modelled latencies are multiplied by."""
    return exp(max(-MOST, min(MOST, memory.bias)))


def held_share(memory: Correction, *, simulated: bool) -> float:
    """The share of an objective that predictions are held to: the rest is what they miss by in 5 % of windows.

    Until enough windows told what that is, where it is a lot, and where tails are not `simulated`: `LEAST_SHARE`.
    """
    if not simulated:
        return LEAST_SHARE
    return max(LEAST_SHARE, 1.0 / upper_factor(memory, 0.0))


def upper_factor(memory: Correction, noise: float) -> float:
    """By what a predicted quantile must be multiplied to hold in 95 % of windows.

    `noise` is what a window's own few requests add; see `propose`. Means vary by what rate and model are off.
    """
    spread = FIRST_SPREAD
    if len(memory.residuals) >= LEAST_RESIDUALS:
        middle = sum(memory.residuals) / len(memory.residuals)
        spread = sqrt(sum((one - middle) ** 2 for one in memory.residuals) / len(memory.residuals))
    return exp(COVERED * sqrt(spread**2 + noise**2 + SHAPE**2))
