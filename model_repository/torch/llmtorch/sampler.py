"""Logits -> the next token of each sequence."""

from __future__ import annotations

from collections.abc import Sequence as Rows

import torch
from torch import Tensor

from llmtorch.sequence import Sequence

# Below this a distribution is its maximum, and dividing by it would overflow.
GREEDY_TEMPERATURE = 1e-5


def sample(logits: Tensor, sequences: Rows[Sequence]) -> list[int]:
    """One token for each row of `logits` `[rows, vocab]`.

    A row's token depends on its logits, its parameters and its own random numbers alone, so a seeded answer is the same
    in any batch. Rows with top-p or top-k go a way of their own for that reason: they see the vocabulary sorted.
    """
    tokens = logits.argmax(dim=-1)
    drawn = [row for row, s in enumerate(sequences) if s.sampling.temperature > GREEDY_TEMPERATURE]
    plain = [row for row in drawn if not _is_filtered(sequences[row])]
    filtered = [row for row in drawn if _is_filtered(sequences[row])]
    if plain:
        tokens[plain] = _draw(_probabilities(logits, sequences, plain), sequences, plain)
    if filtered:
        ranked = _probabilities(logits, sequences, filtered).sort(dim=-1, descending=True, stable=True)
        kept = _filter(ranked.values, sequences, filtered)
        ranks = _draw(kept, sequences, filtered)
        tokens[filtered] = ranked.indices.gather(1, ranks[:, None])[:, 0]
    return [int(token) for token in tokens.tolist()]


def _is_filtered(sequence: Sequence) -> bool:
    return sequence.sampling.top_p < 1.0 or sequence.sampling.top_k > 0


def _probabilities(logits: Tensor, sequences: Rows[Sequence], rows: list[int]) -> Tensor:
    temperatures = torch.tensor([sequences[row].sampling.temperature for row in rows], device=logits.device)
    return torch.softmax(logits[rows] / temperatures[:, None], dim=-1, dtype=torch.float64)


def _filter(ranked: Tensor, sequences: Rows[Sequence], rows: list[int]) -> Tensor:
    """Keeps the `top_k` likeliest, and of them the fewest whose sum reaches `top_p`; the others get 0."""
    vocab = ranked.shape[-1]
    top_k = torch.tensor([sequences[row].sampling.top_k or vocab for row in rows], device=ranked.device)
    top_p = torch.tensor([sequences[row].sampling.top_p for row in rows], device=ranked.device, dtype=ranked.dtype)
    ranked = ranked.masked_fill(torch.arange(vocab, device=ranked.device) >= top_k[:, None], 0.0)
    before = ranked.cumsum(dim=-1) - ranked
    return ranked.masked_fill(before >= top_p[:, None] * ranked.sum(dim=-1, keepdim=True), 0.0)


def _draw(weights: Tensor, sequences: Rows[Sequence], rows: list[int]) -> Tensor:
    """An index of each row of `weights` `[rows, vocab]`, as likely as its weight: inverse of the distribution."""
    cumulative = weights.cumsum(dim=-1)
    uniform = torch.tensor([sequences[row].rng.random() for row in rows], device=weights.device, dtype=weights.dtype)
    found = torch.searchsorted(cumulative, uniform[:, None] * cumulative[:, -1:], right=True)[:, 0]
    # Rounding may point behind the last index that has any weight.
    last = (weights > 0).to(torch.int64).cumsum(dim=-1).argmax(dim=-1)
    return torch.minimum(found, last)
