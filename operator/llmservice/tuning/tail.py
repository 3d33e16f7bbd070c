"""How far the model's latencies are off, learnt per metric: a factor on them, and the bound that holds in 95 %."""

from __future__ import annotations

from math import exp, log
from typing import Annotated, Final

from llmservice.tuning.memory import Memory, newest

RATE: Final = 0.15
"""Weight of one window with enough requests."""
ENOUGH: Final = 100.0
MOST: Final = log(4.0)
"""A model that is off by more is not corrected but distrusted."""
RESIDUALS_KEPT: Final = 200
LEAST_RESIDUALS: Final = 20
FIRST_SPREAD: Final = 0.2
COVERAGE: Final = 0.95


class Correction(Memory):
    """Of one metric: logarithms of measured over modelled mean, and of measured over predicted quantile by window."""

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
    return memory.model_copy(
        update={"bias": memory.bias + weight * (miss - memory.bias), "windows": memory.windows + weight / RATE}
    )


def learn_residual(memory: Correction, measured: float, predicted: float) -> Correction:
    """`memory` after a quantile came out as `measured` that had been `predicted`."""
    if measured <= 0 or predicted <= 0:
        return memory
    return memory.model_copy(update={"residuals": (*memory.residuals, log(measured / predicted))[-RESIDUALS_KEPT:]})


def factor(memory: Correction) -> float:
    """What modelled latencies are multiplied by."""
    return exp(max(-MOST, min(MOST, memory.bias)))


def upper_factor(memory: Correction) -> float:
    """By what a predicted quantile must be multiplied to hold in 95 % of windows."""
    if len(memory.residuals) < LEAST_RESIDUALS:
        return exp(FIRST_SPREAD)
    ordered = sorted(memory.residuals)
    return exp(ordered[min(len(ordered) - 1, int(COVERAGE * (len(ordered) + 1)))])
