"""A decoder of the Llama family in plain torch: Llama, SmolLM2, Mistral, Qwen2, Qwen3.

Touvron et al. 2023, https://arxiv.org/abs/2302.13971. All tensors of a step are flat, `[T, …]`: which token belongs to
which sequence only attention has to know.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, silu

from llmtorch.attention import StepBatch, paged_attention
from llmtorch.config import ModelConfig
from llmtorch.kv_cache import KVCache

Weights = dict[str, Tensor]


class RMSNorm:
    """x / rms(x) * weight, computed in float32 over the last dimension (Zhang & Sennrich 2019)."""

    def __init__(self, weight: Tensor, epsilon: float) -> None:
        self.weight = weight
        self.epsilon = epsilon

    def __call__(self, x: Tensor) -> Tensor:
        """X `[…, size]` -> the same shape and type."""
        wide = x.float()
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.epsilon)
        return self.weight * (wide * scale).to(x.dtype)


class Rotary:
    """Rotary position embedding (Su et al. 2021), halves of a head forming the pairs, from tables for all positions."""

    def __init__(self, config: ModelConfig, max_length: int, dtype: torch.dtype, device: torch.device) -> None:
        angles = torch.outer(torch.arange(max_length).float(), rotary_frequencies(config))
        both = torch.cat((angles, angles), dim=-1)
        self._cos = both.cos().to(device, dtype)
        self._sin = both.sin().to(device, dtype)

    def at(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines of the positions `[T]`, each `[T, 1, head_dim]`."""
        return self._cos[positions][:, None], self._sin[positions][:, None]


def rotary_frequencies(config: ModelConfig) -> Tensor:
    """Radians per position of each pair, `[head_dim / 2]`, stretched as the model asks.

    `llama3` as in transformers' `modeling_rope_utils.py`: slow pairs are stretched, fast ones kept, a ramp between.
    """
    pairs = torch.arange(0, config.head_dim, 2, dtype=torch.int64).float()
    frequencies = 1.0 / (config.rope_theta ** (pairs / config.head_dim))
    scaling = config.rope_scaling
    if scaling.kind == "default":
        return frequencies
    if scaling.kind == "linear":
        return frequencies / scaling.factor
    wavelengths = 2 * math.pi / frequencies
    low, high = scaling.low_frequency_factor, scaling.high_frequency_factor
    kept = ((scaling.original_max_length / wavelengths - low) / (high - low)).clamp(0.0, 1.0)
    return (1 - kept) * frequencies / scaling.factor + kept * frequencies


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotates each pair of `x` `[T, heads, head_dim]` by its angle."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Attention:
    """Grouped-query attention; query, key and value projections are one matrix."""

    def __init__(self, config: ModelConfig, weights: Weights, prefix: str) -> None:
        self.config = config
        names = [f"{prefix}.{part}_proj" for part in "qkv"]
        # Taken out, so that the parts are freed layer by layer: a whole second copy would not fit beside the model.
        self.qkv = torch.cat([weights.pop(f"{name}.weight") for name in names])
        self.qkv_bias = torch.cat([weights.pop(f"{name}.bias") for name in names]) if config.qkv_bias else None
        self.output = weights[f"{prefix}.o_proj.weight"]
        self.output_bias = weights[f"{prefix}.o_proj.bias"] if config.output_bias else None
        self.q_norm = RMSNorm(weights[f"{prefix}.q_norm.weight"], config.norm_epsilon) if config.qk_norm else None
        self.k_norm = RMSNorm(weights[f"{prefix}.k_norm.weight"], config.norm_epsilon) if config.qk_norm else None

    def __call__(
        self, x: Tensor, rotary: tuple[Tensor, Tensor], cache: tuple[Tensor, Tensor], step: StepBatch
    ) -> Tensor:
        """X `[T, hidden]` -> the same shape; the step's keys and values are in the cache after."""
        config = self.config
        qkv = linear(x, self.qkv, self.qkv_bias)
        q, k, v = torch.split(qkv, [config.q_size, config.kv_size, config.kv_size], dim=-1)
        q = q.view(-1, config.num_heads, config.head_dim)
        k = k.view(-1, config.num_kv_heads, config.head_dim)
        v = v.view(-1, config.num_kv_heads, config.head_dim)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        out = paged_attention(rotate(q, *rotary), rotate(k, *rotary), v, cache, step)
        return linear(out.flatten(1), self.output, self.output_bias)


class FeedForward:
    """SwiGLU (Shazeer 2020); gate and up projections are one matrix."""

    def __init__(self, weights: Weights, prefix: str) -> None:
        self.gate_up = torch.cat([weights.pop(f"{prefix}.{part}_proj.weight") for part in ("gate", "up")])
        self.down = weights[f"{prefix}.down_proj.weight"]

    def __call__(self, x: Tensor) -> Tensor:
        """X `[T, hidden]` -> the same shape."""
        gate, up = linear(x, self.gate_up).chunk(2, dim=-1)
        return linear(silu(gate) * up, self.down)


class Layer:
    """Attention and feed-forward, each behind a norm and added to the residual stream."""

    def __init__(self, config: ModelConfig, weights: Weights, index: int) -> None:
        prefix = f"model.layers.{index}"
        self.attention_norm = RMSNorm(weights[f"{prefix}.input_layernorm.weight"], config.norm_epsilon)
        self.attention = Attention(config, weights, f"{prefix}.self_attn")
        self.feed_forward_norm = RMSNorm(weights[f"{prefix}.post_attention_layernorm.weight"], config.norm_epsilon)
        self.feed_forward = FeedForward(weights, f"{prefix}.mlp")

    def __call__(
        self, x: Tensor, rotary: tuple[Tensor, Tensor], cache: tuple[Tensor, Tensor], step: StepBatch
    ) -> Tensor:
        """X `[T, hidden]` -> the same shape."""
        x = x + self.attention(self.attention_norm(x), rotary, cache, step)
        return x + self.feed_forward(self.feed_forward_norm(x))


class CausalLM:
    """The whole model. Consumes `weights`; raises `KeyError` with the name of a tensor that they lack."""

    def __init__(self, config: ModelConfig, weights: Weights, max_length: int) -> None:
        self.config = config
        self.embedding = weights["model.embed_tokens.weight"]
        self.layers = [Layer(config, weights, index) for index in range(config.num_layers)]
        self.norm = RMSNorm(weights["model.norm.weight"], config.norm_epsilon)
        self.head = self.embedding if config.tied_embeddings else weights["lm_head.weight"]
        self.rotary = Rotary(config, max_length, self.embedding.dtype, self.embedding.device)

    def forward(self, step: StepBatch, cache: KVCache) -> Tensor:
        """Logits of the wanted rows, `[rows, vocab]` in float32; keys and values of all rows are in the cache after."""
        x = nn.functional.embedding(step.token_ids, self.embedding)
        rotary = self.rotary.at(step.positions)
        for index, layer in enumerate(self.layers):
            x = layer(x, rotary, cache.layer(index), step)
        return linear(self.norm(x[step.last_rows]), self.head).float()
