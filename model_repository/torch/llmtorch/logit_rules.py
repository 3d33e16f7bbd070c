"""What a request does to the logits before a token is chosen: penalties, bias, tokens that may not come yet."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from llmserving.engine import SamplingParameters


class TokenCounts:
    """Which tokens prompt and answer of one sequence hold, and how often each is in the answer. Two `[vocab]` rows."""

    def __init__(self, prompt: Iterable[int], vocab: int, device: torch.device) -> None:
        self.seen = torch.zeros(vocab, dtype=torch.bool, device=device)
        self.seen[torch.tensor(sorted(set(prompt)), dtype=torch.long, device=device)] = True
        self.answer = torch.zeros(vocab, dtype=torch.float32, device=device)

    def add(self, token: int) -> None:
        """Counts one token of the answer."""
        self.seen[token] = True
        self.answer[token] += 1


def has_penalties(parameters: SamplingParameters) -> bool:
    """Whether the tokens so far matter for the next one."""
    return (
        parameters.repetition_penalty != 1.0
        or parameters.presence_penalty != 0.0
        or parameters.frequency_penalty != 0.0
    )


def apply_rules(
    logits: Tensor, parameters: SamplingParameters, counts: TokenCounts | None, forbidden: Iterable[int]
) -> None:
    """Changes one row of logits `[vocab]` in place.

    Repetition penalty as in CTRL (Keskar et al. 2019, section 4.1), presence and frequency penalties as in OpenAI's
    API reference.
    """
    if counts is not None:
        if parameters.repetition_penalty != 1.0:
            penalty = parameters.repetition_penalty
            penalised = torch.where(logits > 0, logits / penalty, logits * penalty)
            torch.where(counts.seen, penalised, logits, out=logits)
        logits -= parameters.frequency_penalty * counts.answer
        logits -= parameters.presence_penalty * (counts.answer > 0)
    if parameters.logit_bias:
        tokens, biases = zip(*parameters.logit_bias, strict=True)
        logits[list(tokens)] += torch.tensor(biases, device=logits.device)
    never = [token for token in forbidden if token < len(logits)]
    if never:
        logits[never] = float("-inf")
