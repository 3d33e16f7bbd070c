"""Step and prompt times of an engine with continuous batching, learnt from its counters.

A step over b sequences takes α + β·b; computing a prompt token takes γ more. Counters tell steps and seconds by batch
size, and prompt tokens in all, so that α, β and γ come from a regression over windows and batch sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from llmservice.tuning.measured import Steps
from llmservice.tuning.memory import Memory

HALF_LIFE: Final = 1800.0
LEAST_STEPS: Final = 200.0
UNKNOWNS: Final = 3
RIDGE: Final = 1e-6


class TokenSums(Memory):
    """Decayed normal equations of seconds over (steps, sequences, prompt tokens), and how many steps they are of."""

    matrix: tuple[float, ...] = (0.0,) * (UNKNOWNS * UNKNOWNS)
    vector: tuple[float, ...] = (0.0,) * UNKNOWNS
    steps: float = 0.0
    largest: float = 0.0


@dataclass(frozen=True)
class TokenTimes:
    """Seconds: of a step alone, for each further sequence, for each prompt token."""

    step: float
    per_sequence: float
    per_prompt_token: float
    largest_seen: float = 0.0

    def step_seconds(self, sequences: float) -> float:
        """A step over `sequences` without a prompt."""
        return self.step + self.per_sequence * sequences


def learn_tokens(memory: TokenSums, steps: Sequence[Steps], prompt_tokens: float, seconds: float) -> TokenSums:
    """`memory` after a window of `seconds`; prompt tokens are taken as spread evenly over its steps.

    Rows are weighed by one over their steps, so that the variance of each is the same.
    """
    total = sum(one.count for one in steps)
    if total <= 0 or len(memory.matrix) != UNKNOWNS * UNKNOWNS:
        return memory
    keep = 0.5 ** (seconds / HALF_LIFE)
    rows = np.array([(1.0, one.batch_size, prompt_tokens / total) for one in steps])
    count = np.array([one.count for one in steps])
    mean = np.array([one.seconds for one in steps]) / np.maximum(count, 1e-12)
    matrix = keep * np.array(memory.matrix).reshape(UNKNOWNS, UNKNOWNS) + rows.T @ (rows * count[:, None])
    vector = keep * np.array(memory.vector) + rows.T @ (mean * count)
    return TokenSums(
        matrix=tuple(float(x) for x in matrix.ravel()),
        vector=tuple(float(x) for x in vector),
        steps=keep * memory.steps + total,
        largest=max(keep * memory.largest, float(max(one.batch_size for one in steps))),
    )


@lru_cache(maxsize=64)
def token_times_of(memory: TokenSums) -> TokenTimes | None:
    """α, β and γ, none negative; None until enough steps were counted."""
    if memory.steps < LEAST_STEPS:
        return None
    matrix = np.array(memory.matrix).reshape(UNKNOWNS, UNKNOWNS)
    vector = np.array(memory.vector)
    solution = np.zeros(UNKNOWNS)
    free = [0, 1, 2]
    while free:
        part = matrix[np.ix_(free, free)]
        scale = np.sqrt(np.maximum(np.diag(part), 1e-30))
        scaled = part / np.outer(scale, scale) + RIDGE * np.eye(len(free))
        found = np.linalg.solve(scaled, vector[free] / scale) / scale
        if (found >= 0).all():
            solution[free] = found
            break
        free.pop(int(found.argmin()))  # what would be negative is nothing
    step, per_sequence, per_prompt = (float(x) for x in solution)
    if step + per_sequence <= 0:
        return None
    return TokenTimes(step, per_sequence, per_prompt, memory.largest)
