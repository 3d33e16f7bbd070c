"""The engines that are simulated, each a few numbers with their source."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class BatchKind:
    """An engine whose batches run to completion: b requests take `overhead + per_request * b` seconds.

    `gains[k - 1]` is what k busy instances do together, in units of one alone. `jitter` is the relative standard
    deviation of a batch's time.
    """

    overhead: float = 0.010
    per_request: float = 0.001
    max_batch: int = 64
    gains: tuple[float, ...] = (1.0, 1.25, 1.35, 1.40)
    jitter: float = 0.02
    memory_instances: int = 4
    """Instances whose weights fit on the accelerator together."""

    def batch_seconds(self, size: float) -> float:
        """Time of a batch of `size` alone on its accelerator."""
        return self.overhead + self.per_request * size

    @property
    def capacity(self) -> float:
        """Most requests/s of one instance."""
        return self.max_batch / self.batch_seconds(self.max_batch)

    def gain_array(self) -> Floats:
        """`gains`, the last one repeated, for as many instances as a replica may have."""
        return np.array((*self.gains, *([self.gains[-1]] * 8))[:8])

    def drifted(self, factor: float) -> BatchKind:
        """The same engine, `factor` times as slow."""
        return replace(self, overhead=self.overhead * factor, per_request=self.per_request * factor)


class TokenTable(NamedTuple):
    """The tables of a `TokenKind` as arrays."""

    sizes: Floats
    contexts: Floats
    steps: Floats
    prompts: Floats
    prompt_seconds: Floats


@dataclass(frozen=True)
class TokenKind:
    """An engine with continuous batching, by tables of step times in seconds.

    `steps[i][j]` is a decode step of `sizes[i]` sequences with `contexts[j]` tokens each, `prompt_seconds[i]` a step
    that computes `prompts[i]` prompt tokens.
    """

    sizes: tuple[float, ...]
    contexts: tuple[float, ...]
    steps: tuple[tuple[float, ...], ...]
    prompts: tuple[float, ...]
    prompt_seconds: tuple[float, ...]
    max_sequences: int = 192
    max_prompt_tokens: int = 8192
    kv_tokens: int = 400_000
    slowness: float = 1.0

    @cache  # noqa: B019 - kinds are few and live as long as the process
    def arrays(self) -> TokenTable:
        """The tables as the kernel takes them."""
        columns = (self.sizes, self.contexts, self.steps, self.prompts, self.prompt_seconds)
        return TokenTable(*(np.array(column, dtype=float) for column in columns))

    def drifted(self, factor: float) -> TokenKind:
        """The same engine, `factor` times as slow."""
        return replace(self, slowness=self.slowness * factor)


Kind = BatchKind | TokenKind

DYNAMIC: Final = BatchKind()
"""Kind A: overhead and slope of a batched model of a few hundred million parameters."""

LLAMA_8B_A100: Final = TokenKind(
    sizes=(1, 16, 32, 64, 96, 128, 192),
    contexts=(256, 1155, 4096),
    steps=(
        (0.011809, 0.011894, 0.012172),
        (0.012503, 0.013903, 0.017600),
        (0.013367, 0.016348, 0.025342),
        (0.014312, 0.018959, 0.033976),
        (0.017052, 0.023631, 0.046942),
        (0.018318, 0.026828, 0.057530),
        (0.027791, 0.040979, 0.086057),
    ),
    prompts=(128, 512, 1155, 2048, 4096, 8192),
    prompt_seconds=(0.014508, 0.035986, 0.072313, 0.125185, 0.258702, 0.556955),
)
"""Kind B: Llama-3.1-8B on one A100-SXM-80GB under vLLM 0.14.

Computed with `aiconfigurator` 0.12.0 of NVIDIA (PyPI, Apache-2.0), `cli estimate`, from its measured operator times;
`benchmarks/tritune/reference.py` computes them again. The cache: 90 % of 80 GB less 16 GB of weights and some
workspace, at 128 KiB a token.
"""
