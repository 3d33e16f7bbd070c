"""Rotary position embedding (Su et al. 2021, https://arxiv.org/abs/2104.09864), halves of a head forming the pairs."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from llmtorch.config import ModelConfig


class Rotary:
    """Cosines and sines for all positions, computed once."""

    def __init__(self, config: ModelConfig, max_length: int, dtype: torch.dtype, device: torch.device) -> None:
        angles = torch.outer(torch.arange(max_length).float(), rotary_frequencies(config))
        self._cos = torch.cat((angles, angles), dim=-1).cos().to(device, dtype)
        # The sign of the half that is subtracted is in the table, so that rotating needs no negation.
        self._sin = torch.cat((-angles, angles), dim=-1).sin().to(device, dtype)

    def at(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and signed sines of the positions `[T]`, each `[T, 1, head_dim]`."""
        return self._cos[positions][:, None], self._sin[positions][:, None]


def rotate_(x: Tensor, cos: Tensor, sin: Tensor) -> None:
    """Rotates, in place, each pair of `x` `[T, heads, head_dim]` by its angle."""
    swapped = x.roll(x.shape[-1] // 2, dims=-1)
    torch.addcmul(x * cos, swapped, sin, out=x)


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
