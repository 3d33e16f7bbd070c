"""Seeded stand-ins for public traces: the same mean, the same burstiness, the same lengths, none of the data.

What they imitate: Azure's LLM inference traces of 2023 (conversation: 5.5 requests/s, index of dispersion 16 over a
minute; code: 2.6 requests/s, squared variation of the gaps 173, one second of 26 times the mean), Mooncake's
conversation trace (3.4 requests/s, prompts of 12,000 tokens), Alibaba's ServeGen rates (14 days of 10-minute windows;
growth from one to the next 1.58 at the 99th percentile).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llmservice.tuning.simulator.load import Load, RateSeries, Tokens, load_of, modulated, renewal

Floats = NDArray[np.float64]

DAY = 86400.0


def wandering(count: int, spread: float, memory: float, random: np.random.Generator) -> Floats:
    """A positive series of mean 1: the exponential of a first-order autoregression.

    `spread` is the logarithm's standard deviation, `memory` the number of entries over which it forgets.
    """
    keep = float(np.exp(-1.0 / memory))
    steps = random.standard_normal(count) * spread * np.sqrt(1 - keep**2)
    level = random.standard_normal() * spread
    values = np.empty(count)
    for index, step in enumerate(steps):
        level = keep * level + step
        values[index] = level
    factors: Floats = np.exp(values - 0.5 * spread**2)
    return factors


def conversation(seed: int, seconds: float = 3500.0) -> Load:
    """Chat: a rate that wanders by a fifth over minutes, prompts of 1,155 tokens, answers of 211."""
    random = np.random.default_rng([seed, 4])
    rates = 5.53 * wandering(int(seconds / 10), 0.21, 30, random)
    return load_of(renewal(RateSeries(rates, 10.0), random), seconds, random, Tokens(1155, 211, 0.9))


def code(seed: int, seconds: float = 3420.0) -> Load:
    """Code completion: near silence, then a burst of seconds; prompts of 2,048 tokens, answers of 28."""
    random = np.random.default_rng([seed, 5])
    times = modulated(2.57, 60.0, 4.0, 0.045, seconds, random)
    return load_of(times, seconds, random, Tokens(2048, 28, 0.8))


def long_context(seed: int, seconds: float = 3500.0) -> Load:
    """Long documents: prompts of 12,000 tokens, answers of 343."""
    random = np.random.default_rng([seed, 6])
    rates = 3.4 * wandering(int(seconds / 10), 0.25, 12, random)
    return load_of(renewal(RateSeries(rates, 10.0), random), seconds, random, Tokens(12000, 343, 0.8))


def days(seed: int, count: int = 14) -> RateSeries:
    """A service's rates over days, by 10-minute windows of mean 1: day and night, weekends, wandering, sudden peaks."""
    random = np.random.default_rng([seed, 7])
    windows = int(count * DAY / 600)
    moments = np.arange(windows) * 600.0
    hour = 2 * np.pi * (moments / DAY - 0.6)
    daily = np.exp(0.55 * np.cos(hour) + 0.2 * np.cos(2 * hour))
    weekend = np.where((moments // DAY) % 7 >= 5, 0.75, 1.0)
    rates = daily * weekend * wandering(windows, 0.2, 20, random) * wandering(windows, 0.12, 1, random)
    for start in np.flatnonzero(random.random(windows) < 0.006):
        rates[start : start + int(random.integers(1, 4))] *= random.uniform(1.5, 2.6)
    return RateSeries(rates / rates.mean(), 600.0)
