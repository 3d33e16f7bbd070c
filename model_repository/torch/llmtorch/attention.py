"""Attention of one step over the paged cache: decoding rows and prompts by groups of like length, other rows alone.

PagedAttention: Kwon et al. 2023, https://arxiv.org/abs/2309.06180. Here blocks are gathered and handed to torch's SDPA.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from llmtorch.kv_cache import AnyLayerCache
from llmtorch.prompt_groups import PromptGroup
from llmtorch.step_batch import DecodeGroup, Prefill, StepBatch


def paged_attention(q: Tensor, kv: Tensor, cache: AnyLayerCache, step: StepBatch, window: int | None) -> Tensor:
    """Stores the step's keys and values and attends.

    q `[T, heads, d]`, kv `[T, 2 * kv_heads, d]` with all keys first -> `[T, heads * d]`.
    """
    cache.write(kv, step.slots)
    view = step.views[window]
    parts = [_decode(q[group.start : group.end], cache, group) for group in view.groups]
    for prefill in view.prefills:
        rows = slice(prefill.start, prefill.end)
        if isinstance(prefill, PromptGroup):
            parts.append(_prompts(q[rows], kv[rows], prefill))
        else:
            parts.append(_prefill(q[rows], kv[rows], cache, prefill))
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _decode(q: Tensor, cache: AnyLayerCache, group: DecodeGroup) -> Tensor:
    """One token a sequence.

    The query heads that share a key head stand where SDPA has query positions: no key is copied for them.
    """
    batch, heads, dim = q.shape
    kv = cache.read(group.blocks, q.dtype)
    kv_heads = kv.shape[1] // 2
    k, v = kv.view(batch, -1, 2 * kv_heads, dim).transpose(1, 2).chunk(2, dim=1)
    grouped = q.reshape(batch, kv_heads, heads // kv_heads, dim)
    return scaled_dot_product_attention(grouped, k, v, attn_mask=group.mask).reshape(batch, heads * dim)


def _prefill(q: Tensor, kv: Tensor, cache: AnyLayerCache, prefill: Prefill) -> Tensor:
    """Tokens of one sequence against its whole context so far; a whole prompt needs nothing from the cache.

    Unless the cache rounds: then what a token sees must not depend on how its prompt was cut.
    """
    kv_heads = kv.shape[1] // 2
    if prefill.mask is not None or cache.rounds:
        kv = cache.read(prefill.blocks, q.dtype)[: prefill.context]
    k, v = kv.transpose(0, 1)[None].chunk(2, dim=1)
    out = scaled_dot_product_attention(
        q.transpose(0, 1)[None],
        k,
        v,
        attn_mask=prefill.mask,
        is_causal=prefill.mask is None,
        enable_gqa=q.shape[1] != kv_heads,
    )
    return out[0].transpose(0, 1).reshape(q.shape[0], -1)


def _prompts(q: Tensor, kv: Tensor, group: PromptGroup) -> Tensor:
    """Whole prompts of like length: each token sees itself and those before it, so never the padding behind.

    They do not look into the cache, so a step for one that rounds has none.
    """
    if group.padded is not None:
        q, kv = q.index_select(0, group.padded), kv.index_select(0, group.padded)
    heads, dim = q.shape[1:]
    kv_heads = kv.shape[1] // 2
    k, v = kv.reshape(group.count, group.length, 2 * kv_heads, dim).transpose(1, 2).chunk(2, dim=1)
    queries = q.reshape(group.count, group.length, heads, dim).transpose(1, 2)
    out = scaled_dot_product_attention(queries, k, v, is_causal=True, enable_gqa=heads != kv_heads)
    out = out.transpose(1, 2).reshape(-1, heads * dim)
    return out if group.own is None else out.index_select(0, group.own)
