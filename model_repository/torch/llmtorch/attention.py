"""Attention of one step over the paged cache: rows that decode as one padded batch, prompts one by one.

PagedAttention: Kwon et al. 2023, https://arxiv.org/abs/2309.06180. Here blocks are gathered and handed to torch's SDPA.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from llmtorch.scheduler import Chunk


@dataclass(frozen=True)
class Prefill:
    """Several tokens of one sequence: rows `start` to `end` of the step, after `end - start` fewer than `context`.

    `blocks` `[n]` is the sequence's block table; `mask` `[end - start, context]` lets a token see itself and what is
    before it.
    """

    start: int
    end: int
    context: int
    blocks: Tensor
    mask: Tensor


@dataclass(frozen=True)
class StepBatch:
    """The tokens of one step laid end to end, T in all; the first `num_decodes` rows are one token of a sequence each.

    `decode_tables` `[num_decodes, n]` are block tables padded to the longest, `decode_mask` `[num_decodes, 1, 1, n *
    block_size]` hides what is behind a sequence's own tokens. `last_rows` are the rows whose logits are wanted.
    """

    token_ids: Tensor
    positions: Tensor
    slots: Tensor
    last_rows: Tensor
    num_decodes: int
    decode_tables: Tensor
    decode_mask: Tensor
    prefills: tuple[Prefill, ...]


def build_step(chunks: Sequence[Chunk], block_size: int, device: torch.device, dtype: torch.dtype) -> StepBatch:
    """Lays out the chunks, those of one token first; `last_rows` follows the order of the chunks that give a token."""
    ordered = sorted(chunks, key=lambda chunk: chunk.count > 1)
    token_ids: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    rows: dict[int, int] = {}
    prefills: list[Prefill] = []
    for chunk in ordered:
        sequence, first = chunk.sequence, chunk.sequence.num_computed
        context = first + chunk.count
        row = len(token_ids)
        token_ids += sequence.tokens[first:context]
        positions += range(first, context)
        slots += [sequence.blocks[p // block_size] * block_size + p % block_size for p in range(first, context)]
        rows[sequence.key] = len(token_ids) - 1
        if chunk.count > 1:
            blocks = torch.tensor(sequence.blocks, device=device)
            mask = torch.ones(chunk.count, context, dtype=torch.bool, device=device).tril(first)
            prefills.append(Prefill(row, len(token_ids), context, blocks, mask))
    decodes = [chunk.sequence.blocks for chunk in ordered if chunk.count == 1]
    lengths = [chunk.sequence.num_computed + 1 for chunk in ordered if chunk.count == 1]
    longest = max((len(blocks) for blocks in decodes), default=0)
    # Padded with the row's own first block: whatever another sequence holds cannot reach this one.
    tables = [blocks + [blocks[0]] * (longest - len(blocks)) for blocks in decodes]
    hidden = torch.arange(longest * block_size, device=device) >= torch.tensor(lengths, device=device)[:, None]
    mask = torch.zeros(hidden.shape, dtype=dtype, device=device).masked_fill_(hidden, float("-inf"))
    last_rows = [rows[chunk.sequence.key] for chunk in chunks if chunk.gives_token]
    return StepBatch(
        token_ids=torch.tensor(token_ids, device=device),
        positions=torch.tensor(positions, device=device),
        slots=torch.tensor(slots, device=device),
        last_rows=torch.tensor(last_rows, dtype=torch.long, device=device),
        num_decodes=len(decodes),
        decode_tables=torch.tensor(tables, dtype=torch.long, device=device),
        decode_mask=mask[:, None, None, :],
        prefills=tuple(prefills),
    )


def paged_attention(q: Tensor, k: Tensor, v: Tensor, cache: tuple[Tensor, Tensor], step: StepBatch) -> Tensor:
    """Stores the step's keys and values and attends. q `[T, heads, d]`, k and v `[T, kv_heads, d]` -> like q."""
    keys, values = cache
    keys.view(-1, *keys.shape[2:])[step.slots] = k.to(keys.dtype)
    values.view(-1, *values.shape[2:])[step.slots] = v.to(values.dtype)
    out = torch.empty_like(q)
    if step.num_decodes:
        out[: step.num_decodes] = _decode(q[: step.num_decodes], keys, values, step)
    for prefill in step.prefills:
        out[prefill.start : prefill.end] = _prefill(q[prefill.start : prefill.end], keys, values, prefill)
    return out


def _decode(q: Tensor, keys: Tensor, values: Tensor, step: StepBatch) -> Tensor:
    """One token a sequence.

    The query heads that share a key head stand where SDPA has query positions: no key is copied for them.
    """
    batch, heads, dim = q.shape
    kv_heads = keys.shape[2]
    k = keys[step.decode_tables].flatten(1, 2).transpose(1, 2).to(q.dtype)
    v = values[step.decode_tables].flatten(1, 2).transpose(1, 2).to(q.dtype)
    grouped = q.view(batch, kv_heads, heads // kv_heads, dim)
    return scaled_dot_product_attention(grouped, k, v, attn_mask=step.decode_mask).reshape(batch, heads, dim)


def _prefill(q: Tensor, keys: Tensor, values: Tensor, prefill: Prefill) -> Tensor:
    """Tokens of one sequence against its whole context so far."""
    k = keys[prefill.blocks].flatten(0, 1)[: prefill.context].transpose(0, 1).to(q.dtype)
    v = values[prefill.blocks].flatten(0, 1)[: prefill.context].transpose(0, 1).to(q.dtype)
    out = scaled_dot_product_attention(
        q.transpose(0, 1)[None], k[None], v[None], attn_mask=prefill.mask, enable_gqa=q.shape[1] != k.shape[0]
    )
    return out[0].transpose(0, 1)
