"""A decoder of the Llama family in plain torch: Llama, SmolLM2, Mistral, Qwen2, Qwen3.

Touvron et al. 2023, https://arxiv.org/abs/2302.13971. All tensors of a step are flat, `[T, …]`: which token belongs to
which sequence only attention has to know.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import rms_norm, silu

from llmtorch.attention import paged_attention
from llmtorch.config import ModelConfig
from llmtorch.kv_cache import AnyLayerCache, KVCache
from llmtorch.linear import Linear
from llmtorch.rotary import Rotary, rotate_
from llmtorch.step_batch import StepBatch

Weights = dict[str, Tensor]


class RMSNorm:
    """x / rms(x) * weight, computed in float32 over the last dimension (Zhang & Sennrich 2019)."""

    def __init__(self, weight: Tensor, epsilon: float) -> None:
        self.weight = weight
        self.epsilon = epsilon

    def __call__(self, x: Tensor) -> Tensor:
        """X `[…, size]` -> the same shape and type."""
        return rms_norm(x, self.weight.shape, self.weight, self.epsilon)


class Attention:
    """Grouped-query attention; query, key and value projections are one matrix."""

    def __init__(self, config: ModelConfig, weights: Weights, prefix: str, window: int | None) -> None:
        self.config = config
        self.window = window
        names = [f"{prefix}.{part}_proj" for part in "qkv"]
        # Taken out, so that the parts are freed layer by layer: a whole second copy would not fit beside the model.
        bias = torch.cat([weights.pop(f"{name}.bias") for name in names]) if config.qkv_bias else None
        self.qkv = Linear(torch.cat([weights.pop(f"{name}.weight") for name in names]), bias)
        bias = weights.pop(f"{prefix}.o_proj.bias") if config.output_bias else None
        self.output = Linear(weights.pop(f"{prefix}.o_proj.weight"), bias)
        self.q_norm = RMSNorm(weights[f"{prefix}.q_norm.weight"], config.norm_epsilon) if config.qk_norm else None
        self.k_norm = RMSNorm(weights[f"{prefix}.k_norm.weight"], config.norm_epsilon) if config.qk_norm else None

    def __call__(
        self, x: Tensor, residual: Tensor, rotary: tuple[Tensor, Tensor], cache: AnyLayerCache, step: StepBatch
    ) -> Tensor:
        """X `[T, hidden]` -> its attention added to `residual`; the step's keys and values are in the cache after."""
        config = self.config
        heads = self.qkv(x).view(x.shape[0], -1, config.head_dim)
        queries, keys = heads[:, : config.num_heads], heads[:, config.num_heads : -config.num_kv_heads]
        if self.q_norm is not None and self.k_norm is not None:
            queries.copy_(self.q_norm(queries))
            keys.copy_(self.k_norm(keys))
        rotate_(heads[:, : -config.num_kv_heads], *rotary)
        out = paged_attention(queries, heads[:, config.num_heads :], cache, step, self.window)
        return self.output.plus(out, residual)


class FeedForward:
    """SwiGLU (Shazeer 2020); gate and up projections are one matrix."""

    def __init__(self, weights: Weights, prefix: str) -> None:
        self.gate_up = Linear(torch.cat([weights.pop(f"{prefix}.{part}_proj.weight") for part in ("gate", "up")]))
        self.down = Linear(weights.pop(f"{prefix}.down_proj.weight"))

    def __call__(self, x: Tensor, residual: Tensor) -> Tensor:
        """X `[T, hidden]` -> its feed-forward added to `residual`."""
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down.plus(silu(gate).mul_(up), residual)


class Layer:
    """Attention and feed-forward, each behind a norm and added to the residual stream."""

    def __init__(self, config: ModelConfig, weights: Weights, index: int) -> None:
        prefix = f"model.layers.{index}"
        self.attention_norm = RMSNorm(weights[f"{prefix}.input_layernorm.weight"], config.norm_epsilon)
        self.attention = Attention(config, weights, f"{prefix}.self_attn", config.windows[index])
        self.feed_forward_norm = RMSNorm(weights[f"{prefix}.post_attention_layernorm.weight"], config.norm_epsilon)
        self.feed_forward = FeedForward(weights, f"{prefix}.mlp")

    def __call__(self, x: Tensor, rotary: tuple[Tensor, Tensor], cache: AnyLayerCache, step: StepBatch) -> Tensor:
        """X `[T, hidden]` -> the same shape."""
        x = self.attention(self.attention_norm(x), x, rotary, cache, step)
        return self.feed_forward(self.feed_forward_norm(x), x)


class CausalLM:
    """The whole model. Consumes `weights`; raises `KeyError` with the name of a tensor that they lack."""

    def __init__(self, config: ModelConfig, weights: Weights, max_length: int) -> None:
        self.config = config
        self.embedding = weights["model.embed_tokens.weight"]
        self.layers = [Layer(config, weights, index) for index in range(config.num_layers)]
        self.norm = RMSNorm(weights["model.norm.weight"], config.norm_epsilon)
        self.head = Linear(self.embedding if config.tied_embeddings else weights.pop("lm_head.weight"))
        self.rotary = Rotary(config, max_length, self.embedding.dtype, self.embedding.device)

    def forward(self, step: StepBatch, cache: KVCache) -> Tensor:
        """Logits of the wanted rows, `[rows, vocab]` in float32; keys and values of all rows are in the cache after."""
        x = nn.functional.embedding(step.token_ids, self.embedding)
        rotary = self.rotary.at(step.positions)
        for layer, layer_cache in zip(self.layers, cache.layers, strict=True):
            x = layer(x, rotary, layer_cache, step)
        return self.head(self.norm(x[step.last_rows])).float()
