"""Arrivals: when requests come and how large they are. Every process is a pure function of its seed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Load:
    """Requests in order of arrival, over `seconds` from 0, with their lengths in tokens."""

    times: Floats
    input_tokens: Floats
    output_tokens: Floats
    seconds: float

    @property
    def mean_rate(self) -> float:
        """Requests/s."""
        return len(self.times) / self.seconds

    def part(self, start: float, end: float) -> Load:
        """What arrives from `start` to `end`, with its time counted from `start`."""
        low, high = np.searchsorted(self.times, [start, end])
        return Load(
            self.times[low:high] - start, self.input_tokens[low:high], self.output_tokens[low:high], end - start
        )

    def rates(self, window: float) -> Floats:
        """Requests/s in each whole `window` seconds."""
        edges = np.arange(0.0, self.seconds + 1e-9, window)
        return np.diff(np.searchsorted(self.times, edges)) / window


class Tokens:
    """Prompt and output lengths: lognormal, with these means and this spread (standard deviation of the logarithm)."""

    def __init__(self, mean_input: float = 1155.0, mean_output: float = 211.0, spread: float = 0.6) -> None:
        self.mean_input, self.mean_output, self.spread = mean_input, mean_output, spread

    def draw(self, count: int, random: np.random.Generator) -> tuple[Floats, Floats]:
        """Lengths of `count` requests, at least 1 token each."""
        shift = -0.5 * self.spread**2
        factors = np.exp(shift + self.spread * random.standard_normal((2, count)))
        return (
            np.maximum(1.0, np.round(self.mean_input * factors[0])),
            np.maximum(1.0, np.round(self.mean_output * factors[1])),
        )


class Inside(StrEnum):
    """What a rate does between the points of a series."""

    LINEAR = "linear"
    """It goes straight from the middle of one window to the middle of the next."""
    STEPWISE = "stepwise"


@dataclass(frozen=True)
class RateSeries:
    """Requests/s by windows of `window` seconds."""

    rates: Floats
    window: float

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return len(self.rates) * self.window

    def scaled_to(self, mean: float) -> RateSeries:
        """The same shape with another mean: thinned or thickened."""
        return RateSeries(self.rates * (mean / float(self.rates.mean())), self.window)

    def part(self, start: int, end: int) -> RateSeries:
        """Windows `start` to `end`."""
        return RateSeries(self.rates[start:end], self.window)

    def fine(self, inside: Inside, step: float) -> RateSeries:
        """The same series in windows of `step` seconds."""
        moments = np.arange(0.5 * step, self.seconds, step)
        if inside is Inside.STEPWISE:
            return RateSeries(self.rates[np.minimum((moments / self.window).astype(int), len(self.rates) - 1)], step)
        middles = (np.arange(len(self.rates)) + 0.5) * self.window
        return RateSeries(np.interp(moments, middles, self.rates), step)


def poisson(rate: float, seconds: float, random: np.random.Generator) -> Floats:
    """Arrival times of a Poisson process."""
    return np.sort(random.random(random.poisson(rate * seconds)) * seconds)


def renewal(series: RateSeries, random: np.random.Generator, cv: float = 1.0) -> Floats:
    """Arrival times of a renewal process with gamma gaps, coefficient of variation `cv`, that follows a rate series.

    The gaps are drawn in operational time, in which the rate is 1, and mapped back: so they keep their law whatever
    the rate does. `cv` 1 is an inhomogeneous Poisson process.
    """
    expected = np.concatenate(([0.0], np.cumsum(series.rates * series.window)))
    edges = np.arange(len(series.rates) + 1) * series.window
    total = float(expected[-1])
    if cv == 1.0:
        moments = np.sort(random.random(random.poisson(total)) * total)
    else:
        shape = 1.0 / cv**2
        count = int(total + 6 * cv * np.sqrt(total) + 20)
        moments = np.cumsum(random.gamma(shape, 1.0 / shape, count))
        moments = moments[moments < total]
    return np.interp(moments, expected, edges)


def modulated(
    base: float, burst: float, dwell: float, share: float, seconds: float, random: np.random.Generator
) -> Floats:
    """A Markov-modulated Poisson process: bursts of `dwell` seconds on average that take `share` of the time.

    `base` is the mean rate over both states, a burst has `burst` times the rate between bursts.
    """
    quiet_rate = base / (1 - share + share * burst)
    quiet_dwell = dwell * (1 - share) / share
    pieces, now, bursting = [], 0.0, False
    while now < seconds:
        length = random.exponential(dwell if bursting else quiet_dwell)
        end = min(seconds, now + length)
        pieces.append(now + poisson(quiet_rate * (burst if bursting else 1.0), end - now, random))
        now, bursting = end, not bursting
    return np.concatenate(pieces)


def load_of(times: Floats, seconds: float, random: np.random.Generator, tokens: Tokens | None = None) -> Load:
    """Arrival times with lengths drawn for them."""
    inputs, outputs = (tokens or Tokens()).draw(len(times), random)
    return Load(times, inputs, outputs, seconds)
