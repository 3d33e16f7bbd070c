"""Logits -> the next token of each sequence, with log probabilities where they are asked for."""

from __future__ import annotations

import random
from collections.abc import Sequence as Rows
from dataclasses import dataclass

import torch
from torch import Tensor

from llmserving.engine import SamplingParameters
from llmtorch.logit_rules import TokenCounts, apply_rules, has_penalties

GREEDY_TEMPERATURE = 1e-5
"""Below this a distribution is its maximum, and dividing by it would overflow."""
CANDIDATES = 1024
"""Top-k and top-p look at so many of the likeliest tokens first: they hardly ever need more, and sorting a whole
vocabulary takes longer than all else here."""


@dataclass(eq=False)
class Choosing:
    """What the next token of one answer depends on beside its logits.

    `rng` is the answer's own, so that a seeded answer does not depend on what else is in the batch. `ends` are the
    tokens that may not come before `min_tokens`.
    """

    parameters: SamplingParameters
    rng: random.Random
    prompt: Rows[int] = ()
    ends: frozenset[int] = frozenset()
    num_chosen: int = 0
    counts: TokenCounts | None = None

    @property
    def is_greedy(self) -> bool:
        """Whether the likeliest token is taken."""
        return self.parameters.temperature <= GREEDY_TEMPERATURE

    @property
    def takes_likeliest(self) -> bool:
        """Whether the largest logit, as the model gives it, decides and nothing else is asked for."""
        return self.is_greedy and not self.has_rules and self.parameters.logprobs is None

    @property
    def is_ranked(self) -> bool:
        """Whether it matters which tokens are the likeliest."""
        return self.parameters.top_p < 1.0 or self.parameters.top_k > 0

    @property
    def has_rules(self) -> bool:
        """Whether the logits are changed first."""
        return self.forbids or bool(self.parameters.logit_bias) or has_penalties(self.parameters)

    @property
    def forbids(self) -> bool:
        """Whether the answer may not end yet."""
        return self.num_chosen < self.parameters.min_tokens and bool(self.ends)


@dataclass(frozen=True)
class Chosen:
    """A token, and where asked for its log probability and those of the likeliest tokens as (token, logarithm)."""

    token: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()


def sample(logits: Tensor, rows: Rows[Choosing]) -> list[Chosen]:
    """One token for each row of `logits` `[rows, vocab]`, which is changed where a request's rules want it.

    A row's token depends on its logits, its parameters and its own random numbers alone, so a seeded answer is the same
    in any batch. Rows with top-p or top-k go a way of their own for that reason: they see the vocabulary ranked.
    """
    told = [row for row, one in enumerate(rows) if one.parameters.logprobs is not None]
    logprobs = torch.log_softmax(logits[told], dim=-1) if told else None
    _change(logits, rows)
    chosen = take(_choose(logits, rows).tolist(), rows)
    if logprobs is not None:
        for row, values in zip(told, logprobs, strict=True):
            chosen[row] = _with_logprobs(chosen[row].token, values, rows[row].parameters.logprobs or 0)
    return chosen


def take(tokens: Rows[int], rows: Rows[Choosing]) -> list[Chosen]:
    """Counts the tokens as chosen."""
    for one, token in zip(rows, tokens, strict=True):
        one.num_chosen += 1
        if one.counts is not None:
            one.counts.add(token)
    return [Chosen(token) for token in tokens]


def _change(logits: Tensor, rows: Rows[Choosing]) -> None:
    for row, one in enumerate(rows):
        if not one.has_rules:
            continue
        if one.counts is None and has_penalties(one.parameters):
            one.counts = TokenCounts(one.prompt, logits.shape[-1], logits.device)
        apply_rules(logits[row], one.parameters, one.counts, one.ends if one.forbids else ())


def _with_logprobs(token: int, logprobs: Tensor, count: int) -> Chosen:
    top = logprobs.topk(min(count, len(logprobs)))
    pairs = zip(top.indices.tolist(), top.values.tolist(), strict=True)
    return Chosen(token, float(logprobs[token]), tuple((index, value) for index, value in pairs))


def _choose(logits: Tensor, rows: Rows[Choosing]) -> Tensor:
    tokens = logits.argmax(dim=-1)
    drawn = [row for row, one in enumerate(rows) if not one.is_greedy]
    plain = [row for row in drawn if not rows[row].is_ranked]
    ranked = [row for row in drawn if rows[row].is_ranked]
    if plain:
        drawing = [rows[row] for row in plain]
        tokens[plain] = _draw(_probabilities(logits[plain], drawing), drawing)
    if ranked:
        drawing = [rows[row] for row in ranked]
        tokens[ranked] = _draw_ranked(_probabilities(logits[ranked], drawing), drawing)
    return tokens


def _probabilities(logits: Tensor, rows: Rows[Choosing]) -> Tensor:
    """Probabilities `[rows, vocab]`; 0 for tokens less likely than `min_p` of the likeliest."""
    temperatures = torch.tensor([one.parameters.temperature for one in rows], device=logits.device)
    probabilities = torch.softmax(logits / temperatures[:, None], dim=-1)
    if any(one.parameters.min_p > 0 for one in rows):
        min_p = torch.tensor([one.parameters.min_p for one in rows], device=logits.device)
        least = min_p[:, None] * probabilities.amax(dim=-1, keepdim=True)
        probabilities = probabilities.masked_fill(probabilities < least, 0.0)
    return probabilities


def _draw_ranked(probabilities: Tensor, rows: Rows[Choosing]) -> Tensor:
    """Draws from the likeliest tokens, and from the whole vocabulary ranked where these are not enough."""
    vocab = probabilities.shape[-1]
    totals = probabilities.sum(dim=-1, dtype=torch.float64)
    best = probabilities.topk(min(CANDIDATES, vocab), dim=-1)
    reached = best.values.sum(dim=-1, dtype=torch.float64)
    width = best.values.shape[-1]
    enough = [
        width == vocab or _is_enough(one.parameters, width, *sums)
        for one, *sums in zip(rows, reached.tolist(), totals.tolist(), strict=True)
    ]
    tokens = torch.empty(len(rows), dtype=torch.long, device=probabilities.device)
    for few in (True, False):
        chosen = [row for row in range(len(rows)) if enough[row] is few]
        if not chosen:
            continue
        drawing = [rows[row] for row in chosen]
        if few:
            values, indices = best.values[chosen], best.indices[chosen]
        else:
            values, indices = probabilities[chosen].sort(dim=-1, descending=True, stable=True)
        ranks = _draw(_keep(values, drawing, totals[chosen]), drawing)
        tokens[chosen] = indices.gather(1, ranks[:, None])[:, 0]
    return tokens


def _is_enough(parameters: SamplingParameters, width: int, reached: float, total: float) -> bool:
    """Whether the `width` likeliest, `reached` in sum, hold all that top-k and top-p keep."""
    if parameters.top_k:
        return parameters.top_k <= width
    return reached >= parameters.top_p * total


def _keep(ranked: Tensor, rows: Rows[Choosing], totals: Tensor) -> Tensor:
    """Keeps the `top_k` likeliest, and of them the fewest whose sum reaches `top_p`; the others get 0.

    `totals` are the sums over the whole vocabulary.
    """
    width = ranked.shape[-1]
    limits = [one.parameters.top_k or width for one in rows]
    top_k = torch.tensor(limits, device=ranked.device)
    top_p = torch.tensor([one.parameters.top_p for one in rows], device=ranked.device, dtype=torch.float64)
    ranked = ranked.to(torch.float64)
    ranked = ranked.masked_fill(torch.arange(width, device=ranked.device) >= top_k[:, None], 0.0)
    limited = torch.tensor([one.parameters.top_k > 0 for one in rows], device=ranked.device)
    totals = torch.where(limited, ranked.sum(dim=-1), totals)
    before = ranked.cumsum(dim=-1) - ranked
    return ranked.masked_fill(before >= (top_p * totals)[:, None], 0.0)


def _draw(weights: Tensor, rows: Rows[Choosing]) -> Tensor:
    """An index of each row of `weights` `[rows, n]`, as likely as its weight: inverse of the distribution."""
    cumulative = weights.cumsum(dim=-1, dtype=torch.float64)
    uniform = torch.tensor([one.rng.random() for one in rows], device=weights.device, dtype=torch.float64)
    found = torch.searchsorted(cumulative, uniform[:, None] * cumulative[:, -1:], right=True)[:, 0]
    # Rounding may point behind the last index that has any weight.
    last = (weights > 0).to(torch.int64).cumsum(dim=-1).argmax(dim=-1)
    return torch.minimum(found, last)
