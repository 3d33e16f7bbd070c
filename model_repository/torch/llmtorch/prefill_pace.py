"""How many tokens of prompts a step may compute beside answers that are under way, from how long steps took."""

from __future__ import annotations

STALL = 2.0
"""A step with prompts in it may take this many times the time of one that only decodes."""
LEAST_TOKENS = 16
"""Attention of the processors' kernels takes so many of a prompt at once. So many are also the first, while nothing is
known: with those kernels a step of SmolLM2 with 128 took four times as long as one without, and one with a whole prompt
of 1,000 tokens forty times as long (`benchmarks/engine_stall.py`)."""
WEIGHT = 0.2
OUTLIER = 4.0


class PrefillPace:
    """Estimates the seconds of a decoding step and those that each token of a prompt adds to it.

    Means are exponential; one slow step, from whatever cause, moves them by no more than a step `OUTLIER` times as long
    as expected would.
    """

    def __init__(self) -> None:
        self._decode_seconds: float | None = None
        self._token_seconds: float | None = None

    def observe(self, num_decodes: int, prefill_tokens: int, seconds: float) -> None:
        """Learns from one step."""
        if num_decodes and not prefill_tokens:
            self._decode_seconds = _mean(self._decode_seconds, seconds)
        elif prefill_tokens >= LEAST_TOKENS:
            beside = (self._decode_seconds or 0.0) if num_decodes else 0.0
            added = max(seconds - beside, 0.1 * seconds) / prefill_tokens
            self._token_seconds = _mean(self._token_seconds, added)

    def limit(self) -> int:
        """Tokens of prompts beside answers."""
        if self._decode_seconds is None or not self._token_seconds:
            return LEAST_TOKENS
        return max(LEAST_TOKENS, int((STALL - 1.0) * self._decode_seconds / self._token_seconds))


def _mean(mean: float | None, value: float) -> float:
    if mean is None:
        return value
    return mean + WEIGHT * (min(value, OUTLIER * mean) - mean)
