"""One request while it is inside the engine: its tokens, what of them is in the cache, and its text."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from llmserving.engine import SamplingParameters
from llmtorch.stop_strings import StopStrings
from llmtorch.tokenizer import Detokenizer


@dataclass(eq=False)
class Sequence:
    """`tokens` is prompt plus answer; keys and values of the first `num_computed` of them are in the cache.

    `rng` is the sequence's own, so that a seeded answer does not depend on what else is in the batch.
    """

    key: int
    arrival: int
    tokens: list[int]
    num_prompt: int
    max_tokens: int
    sampling: SamplingParameters
    batch: int | None
    rng: random.Random
    detokenizer: Detokenizer
    stop_strings: StopStrings
    num_computed: int = 0
    blocks: list[int] = field(default_factory=list)

    @property
    def num_pending(self) -> int:
        """Tokens still to be put through the model before the next one can be sampled; 1 while decoding."""
        return len(self.tokens) - self.num_computed

    @property
    def num_output(self) -> int:
        """Tokens of the answer so far."""
        return len(self.tokens) - self.num_prompt
