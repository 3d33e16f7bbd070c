"""Latencies of a replica with continuous batching: prompts steal from decoding, the cache limits how many run.

With ITL(b) = α + β·b, T = γ · prompt tokens and λ requests/s, prompts take the share λT of all time, so that decoding
sees ITL_eff = ITL(b) / (1 - λT) and b = λ · output tokens · ITL_eff sequences run (within 9 % of aiconfigurator's A100
figures for Llama-3.1-8B up to 70 % of capacity, and on the safe side beyond).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from llmservice.tuning import closed_form
from llmservice.tuning.settings import Metric
from llmservice.tuning.token_times import TokenTimes

KV_SHARE: Final = 0.8
"""Of the cache that may be used on average: engines preempt when it is full."""
NORMAL: Final = {0.5: 0.0, 0.9: 1.2816, 0.99: 2.3263}
"""Standard normal quantiles, for the number of running sequences, which is close to Poisson."""
OUTPUT_SPREAD: Final = {0.5: 0.85, 0.9: 1.9, 0.99: 3.4}
"""Quantiles of output lengths over their mean (log-normal with σ = 0.6), where nothing better is known."""
FIRST_TOKEN_SPREAD: Final = {0.5: 0.7, 0.9: 1.35, 0.99: 2.0}
"""Quantiles of the time to the first token over 1.35 · t*; see `closed_form.tail_latency`."""
SEARCH_TOLERANCE: Final = 1e-4
"""Of the rate that saturates, to which the largest rate is looked for."""


@dataclass(frozen=True)
class Demand:
    """What a request asks of the engine, on average."""

    input_tokens: float
    output_tokens: float


@dataclass(frozen=True)
class Load:
    """A replica in steady state; infinite where it has none."""

    running: float
    step_seconds: float
    """Between two tokens of a sequence, prompts of others included."""
    prompt_share: float


@dataclass(frozen=True)
class ContinuousModel:
    """One replica with one engine instance, or `instances` of them as if they were alone."""

    times: TokenTimes
    demand: Demand
    max_sequences: int
    kv_tokens: float = 0.0
    instances: int = 1

    @cached_property
    def most_sequences(self) -> float:
        """Sequences of one instance that batch limit and cache allow."""
        if self.kv_tokens <= 0:
            return self.max_sequences
        held = self.demand.input_tokens + self.demand.output_tokens / 2
        return min(self.max_sequences, max(1.0, KV_SHARE * self.kv_tokens / max(1.0, held)))

    @property
    def kv_limits(self) -> bool:
        """Whether the cache and not the batch limit decides."""
        return self.most_sequences < self.max_sequences

    def load(self, rate: float) -> Load:
        """The steady state at `rate` requests/s of the replica."""
        rate = rate / self.instances
        share = rate * self.times.per_prompt_token * self.demand.input_tokens
        tokens = rate * self.demand.output_tokens
        room = 1.0 - share - tokens * self.times.per_sequence
        if room <= 0:
            return Load(math.inf, math.inf, share)
        running = tokens * self.times.step / room
        return Load(running, self.times.step_seconds(running) / (1.0 - share), share)

    def quantile(self, metric: Metric, rate: float, quantile: float, slots: float) -> float:
        """Seconds of `metric` that `quantile` of requests do not exceed with at most `slots` sequences running."""
        state = self.load(rate)
        most = min(slots, self.most_sequences)
        if not state.running < most:
            return math.inf
        spread = state.running + NORMAL[quantile] * math.sqrt(max(state.running, 0.0))
        if metric is Metric.PER_OUTPUT_TOKEN:
            return self.times.step_seconds(min(spread, most)) / (1.0 - state.prompt_share)
        first = self._first_token(rate, quantile, state, most)
        if metric is Metric.TIME_TO_FIRST_TOKEN:
            return first
        return first + OUTPUT_SPREAD[quantile] * self.demand.output_tokens * state.step_seconds

    def mean(self, metric: Metric, rate: float, slots: float) -> float:
        """Mean seconds of `metric`."""
        state = self.load(rate)
        most = min(slots, self.most_sequences)
        if not state.running < most:
            return math.inf
        if metric is Metric.PER_OUTPUT_TOKEN:
            return state.step_seconds
        prompt = self.times.per_prompt_token * self.demand.input_tokens
        first = closed_form.mean_latency(self.times.step_seconds(state.running), prompt, rate / self.instances)
        if metric is Metric.TIME_TO_FIRST_TOKEN:
            return first
        return first + self.demand.output_tokens * state.step_seconds

    def largest_rate(self, metric: Metric, quantile: float, seconds: float, slots: float) -> float:
        """Most requests/s at which the objective holds; 0 where none does."""
        high = self.saturation(slots)
        low = 0.0
        if not self.quantile(metric, 1e-6, quantile, slots) <= seconds:
            return 0.0
        tolerance = SEARCH_TOLERANCE * high
        while high - low > tolerance:
            middle = 0.5 * (low + high)
            if self.quantile(metric, middle, quantile, slots) <= seconds:
                low = middle
            else:
                high = middle
        return low

    def saturation(self, slots: float) -> float:
        """Most requests/s with any latency: where all that may run does, nearly always."""
        most = min(slots, self.most_sequences)
        prompt = self.times.per_prompt_token * self.demand.input_tokens
        each = self.demand.output_tokens * self.times.step_seconds(most) / most
        return self.instances / max(prompt + each, 1e-12)

    def slots_for(self, seconds: float, rate: float) -> float:
        """Most sequences at once whose tokens still come within `seconds` at `rate`; at least 1."""
        share = min(0.95, self.load(rate).prompt_share)
        if self.times.per_sequence <= 0:
            return self.most_sequences
        most = (seconds * (1.0 - share) - self.times.step) / self.times.per_sequence
        return max(1.0, min(self.most_sequences, most))

    def _first_token(self, rate: float, quantile: float, state: Load, most: float) -> float:
        """Prompts that wait are computed together in the next step: greedy batching with a = ITL(b), c = T.

        Requests for which no place is free wait for one: the part of the time in which all are taken, times how long
        it takes until one ends.
        """
        prompt = self.times.per_prompt_token * self.demand.input_tokens
        step = self.times.step_seconds(state.running)
        batch = closed_form.batch_seconds(step, prompt, rate / self.instances)
        first = FIRST_TOKEN_SPREAD[quantile] * closed_form.POISSON_TAIL * batch
        full = (most - state.running) / math.sqrt(max(state.running, 1e-9))
        if full < NORMAL[quantile]:
            each = self.demand.output_tokens * state.step_seconds
            first += each * (NORMAL[quantile] - full) * math.sqrt(state.running) / most
        return first
