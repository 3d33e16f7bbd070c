"""The loads TRITUNE plays, W1 to W8 without the faults, each a function of a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from llmservice.tuning.simulator.load import Inside, Load, RateSeries, load_of, modulated, poisson, renewal
from llmservice.tuning.simulator.standins import code, conversation, days, long_context

STEP_SECONDS: Final = 1800.0
THINNED: Final = 20.0
"""Requests/s that long rate series are thinned to."""


def steady(rate: float, seed: int, seconds: float = 1800.0) -> Load:
    """W1: Poisson arrivals."""
    random = np.random.default_rng([seed, 1])
    return load_of(poisson(rate, seconds, random), seconds, random)


def steps(rate: float, seed: int, length: float = STEP_SECONDS) -> Load:
    """W2: half of `rate`, then twice as much as `rate`, then half again."""
    random = np.random.default_rng([seed, 2])
    pieces = [poisson(rate * factor, length, random) + place * length for place, factor in enumerate((0.5, 2.0, 0.5))]
    return load_of(np.concatenate(pieces), 3 * length, random)


def bursts(rate: float, seed: int, seconds: float = 3600.0) -> Load:
    """W3: bursts of 5 s on average with four times the rate between them, a fifth of the time."""
    random = np.random.default_rng([seed, 3])
    return load_of(modulated(rate, 4.0, 5.0, 0.2, seconds, random), seconds, random)


def follow(
    series: RateSeries, seed: int, mean: float = THINNED, inside: Inside = Inside.LINEAR, cv: float = 1.2
) -> Load:
    """W7: gamma arrivals that follow a rate series, thinned to `mean` requests/s."""
    random = np.random.default_rng([seed, 8])
    fine = series.scaled_to(mean).fine(inside, 60.0)
    return load_of(renewal(fine, random, cv), fine.seconds, random)


WORKLOADS: Final[Mapping[str, Callable[[float, int], Load]]] = {
    "steady": steady,
    "steps": steps,
    "bursts": bursts,
    "conversation": lambda rate, seed: _at(conversation(seed), rate),
    "code": lambda rate, seed: _at(code(seed), rate),
    "long-context": lambda rate, seed: _at(long_context(seed), rate),
    "days": lambda rate, seed: follow(days(seed), seed, rate),
}
"""By name: from a mean rate and a seed to a load."""


def _at(load: Load, rate: float) -> Load:
    """The same requests at another mean rate: time runs faster or slower."""
    factor = load.mean_rate / rate
    return Load(load.times * factor, load.input_tokens, load.output_tokens, load.seconds * factor)
