"""Our sampling parameters in vLLM's words."""

from __future__ import annotations

from typing import Any

from llmserving.engine import SamplingParameters


def sampling_arguments(sampling: SamplingParameters, room: int) -> dict[str, Any]:
    """Arguments of vLLM's `SamplingParams`; `room` bounds the answer, in tokens.

    Raises ValueError for parameters outside their bounds.
    """
    check_sampling(sampling)
    return {
        "max_tokens": min(sampling.max_tokens, room),
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "seed": sampling.seed,
        "stop": list(sampling.stop),
        "stop_token_ids": list(sampling.stop_token_ids),
        "ignore_eos": sampling.ignore_eos,
        "min_tokens": min(sampling.min_tokens, sampling.max_tokens, room),
        "repetition_penalty": sampling.repetition_penalty,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "logit_bias": dict(sampling.logit_bias) or None,
        "logprobs": sampling.logprobs,
        "n": sampling.n,
    }


def check_sampling(sampling: SamplingParameters) -> None:
    """Raises ValueError for parameters outside their bounds, in the words that clients of every engine get."""
    bounds = (
        (sampling.max_tokens >= 1, f"max_tokens is {sampling.max_tokens}: send a whole number from 1"),
        (0.0 <= sampling.temperature < float("inf"), f"temperature is {sampling.temperature}: send a number from 0"),
        (0.0 < sampling.top_p <= 1.0, f"top_p is {sampling.top_p}: send a number above 0, at most 1"),
        (sampling.top_k >= 0, f"top_k is {sampling.top_k}: send 0 (off) or a whole number from 1"),
        (0.0 <= sampling.min_p <= 1.0, f"min_p is {sampling.min_p}: send a number from 0 to 1"),
        (
            sampling.repetition_penalty > 0.0,
            f"repetition_penalty is {sampling.repetition_penalty}: send a number above 0, 1 is off",
        ),
        (sampling.n >= 1, f"n is {sampling.n}: send a whole number from 1"),
        (
            sampling.n == 1 or sampling.temperature > 0.0,
            "n: greedy answers are all the same: send a temperature above 0",
        ),
        (all(sampling.stop), "stop holds an empty string: leave it out"),
    )
    for holds, message in bounds:
        if not holds:
            raise ValueError(message)
