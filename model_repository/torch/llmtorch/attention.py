"""Attention of one step over the paged cache: rows that decode by groups of like length, prompts one by one.

PagedAttention: Kwon et al. 2023, https://arxiv.org/abs/2309.06180. Here blocks are gathered and handed to torch's SDPA.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from llmtorch.kv_cache import LayerCache
from llmtorch.step_batch import DecodeGroup, Prefill, StepBatch


def paged_attention(q: Tensor, kv: Tensor, cache: LayerCache, step: StepBatch) -> Tensor:
    """Stores the step's keys and values and attends.

    q `[T, heads, d]`, kv `[T, 2 * kv_heads, d]` with all keys first -> `[T, heads * d]`.
    """
    cache.write(kv, step.slots)
    parts = [_decode(q[group.start : group.end], cache, group) for group in step.groups]
    for prefill in step.prefills:
        rows = slice(prefill.start, prefill.end)
        parts.append(_prefill(q[rows], kv[rows], cache, prefill))
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _decode(q: Tensor, cache: LayerCache, group: DecodeGroup) -> Tensor:
    """One token a sequence.

    The query heads that share a key head stand where SDPA has query positions: no key is copied for them.
    """
    batch, heads, dim = q.shape
    keys, values = cache.read(group.blocks, q.dtype)
    kv_heads = keys.shape[1]
    k = keys.view(batch, -1, kv_heads, dim).transpose(1, 2)
    v = values.view(batch, -1, kv_heads, dim).transpose(1, 2)
    grouped = q.reshape(batch, kv_heads, heads // kv_heads, dim)
    return scaled_dot_product_attention(grouped, k, v, attn_mask=group.mask).reshape(batch, heads * dim)


def _prefill(q: Tensor, kv: Tensor, cache: LayerCache, prefill: Prefill) -> Tensor:
    """Tokens of one sequence against its whole context so far; a whole prompt needs nothing from the cache."""
    kv_heads = kv.shape[1] // 2
    if prefill.mask is None:
        keys, values = kv[:, :kv_heads], kv[:, kv_heads:]
    else:
        keys, values = (part[: prefill.context] for part in cache.read(prefill.blocks, q.dtype))
    out = scaled_dot_product_attention(
        q.transpose(0, 1)[None],
        keys.transpose(0, 1)[None],
        values.transpose(0, 1)[None],
        attn_mask=prefill.mask,
        is_causal=prefill.mask is None,
        enable_gqa=q.shape[1] != kv_heads,
    )
    return out[0].transpose(0, 1).reshape(q.shape[0], -1)
