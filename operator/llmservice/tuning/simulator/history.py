"""A service's own past as a load and an engine: what it was asked, and how fast it was, by windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmservice.tuning.simulator.kinds import BatchKind, Kind, TokenKind
from llmservice.tuning.simulator.load import RateSeries, Tokens
from llmservice.tuning.simulator.series import MOST_TOKENS

Floats = NDArray[np.float64]

LEAST_STEPS: Final = 200.0
LONGEST_PROMPT: Final = 8192.0
USUAL_KV_TOKENS: Final = 400_000


class HistoryError(ValueError):
    """The past says too little to be replayed."""


@dataclass(frozen=True)
class History:
    """Sums by window of `window` seconds, oldest first; NaN where nothing was recorded.

    `steps` and `step_seconds` have a row per window and a column per batch size in `sizes`.
    """

    window: float
    arrivals: Floats
    completed: Floats
    prompt_tokens: Floats
    generated_tokens: Floats
    sizes: Floats
    steps: Floats
    step_seconds: Floats

    def series(self) -> RateSeries:
        """Requests/s from the first to the last window that is known, holes filled in.

        Raises HistoryError where less than two windows are known.
        """
        places = np.arange(len(self.arrivals))
        known = np.isfinite(self.arrivals)
        if known.sum() < 2 or float(self.arrivals[known].sum()) <= 0:
            raise HistoryError(
                "no requests are recorded for this service in this time: check its namespace and name, and that "
                "Prometheus scrapes its gate, or look further back"
            )
        first, last = places[known][[0, -1]]
        filled = np.interp(places[first : last + 1], places[known], self.arrivals[known])
        return RateSeries(filled / self.window, self.window)

    def tokens(self) -> Tokens:
        """Mean lengths, and the usual spread of them."""
        done = float(np.nansum(self.completed))
        prompts, answers = float(np.nansum(self.prompt_tokens)), float(np.nansum(self.generated_tokens))
        if done <= 0 or prompts <= 0 or answers <= 0:
            raise HistoryError("the engine counted no tokens in this time: check that Prometheus scrapes it")
        means = prompts / done, answers / done
        if max(means) > MOST_TOKENS:
            raise HistoryError(
                f"its counters come to {means[0]:g} prompt tokens and {means[1]:g} answer tokens a request, which no "
                "model takes: look at another time"
            )
        return Tokens(max(1.0, means[0]), max(1.0, means[1]), 0.8)

    def kind(self, max_sequences: int, *, continuous: bool) -> Kind:
        """The engine as its own step counters have it. Raises HistoryError where they say too little."""
        return self._token_kind(max_sequences) if continuous else self._batch_kind(max_sequences)

    def _batch_kind(self, max_batch: int) -> BatchKind:
        counts, seconds = np.nansum(self.steps, axis=0), np.nansum(self.step_seconds, axis=0)
        used = counts > 0
        if counts.sum() < LEAST_STEPS:
            raise HistoryError(
                f"the engine counted {counts.sum():.0f} steps in this time: {LEAST_STEPS:.0f} are needed"
            )
        rows = np.column_stack((np.ones(int(used.sum())), self.sizes[used]))
        overhead, slope = _positive_fit(rows, seconds[used] / counts[used], counts[used])
        batches_steps = max(1.0, float((counts * self.sizes).sum()) / max(1.0, float(np.nansum(self.completed))))
        return BatchKind(overhead * batches_steps, slope * batches_steps, max_batch, jitter=0.05)

    def _token_kind(self, max_sequences: int) -> TokenKind:
        """Seconds of a window = a * steps + b * sequences in them + c * prompt tokens, least squares over windows."""
        steps = np.nansum(self.steps, axis=1)
        sequences = np.nansum(self.steps * self.sizes, axis=1)
        seconds = np.nansum(self.step_seconds, axis=1)
        used = (steps > 0) & np.isfinite(self.prompt_tokens)
        if steps.sum() < LEAST_STEPS or used.sum() < 3:
            raise HistoryError(f"the engine counted {steps.sum():.0f} steps in this time: {LEAST_STEPS:.0f} are needed")
        rows = np.column_stack((steps, sequences, self.prompt_tokens))[used]
        step, each, prompt = _positive_fit(rows, seconds[used], np.ones(int(used.sum())))
        alone, full = step + each, step + each * max_sequences
        return TokenKind(
            sizes=(1.0, float(max_sequences)),
            contexts=(1.0, LONGEST_PROMPT),
            steps=((alone, alone), (full, full)),
            prompts=(1.0, LONGEST_PROMPT),
            prompt_seconds=(step + prompt, step + prompt * LONGEST_PROMPT),
            max_sequences=max_sequences,
            kv_tokens=USUAL_KV_TOKENS,
        )


def _positive_fit(rows: Floats, values: Floats, weights: Floats) -> Floats:
    """Weighted least squares with no negative coefficient: a term that would be is left out."""
    scale = np.sqrt(weights)
    active = list(range(rows.shape[1]))
    while active:
        found = np.linalg.lstsq(rows[:, active] * scale[:, None], values * scale, rcond=None)[0]
        if (found >= 0).all():
            break
        active.pop(int(np.argmin(found)))
    result = np.zeros(rows.shape[1])
    if active:
        result[active] = found
    if result[0] <= 0:
        # Every step costs something; otherwise batches of one would be free.
        result[0] = 1e-4
    return result
