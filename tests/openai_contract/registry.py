"""The list of cases, and what each is given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import openai

QUESTION: Final = "What is the capital of France?"
ANSWER: Final = "The capital of France is Paris."
INPUT_TOKENS: Final = 37
OUTPUT_TOKENS: Final = 8
MODEL: Final = "smollm2"
MAX_LENGTH: Final = 1024
NARROW_LEVEL: Final = 3
"""A priority level of which only one request may wait."""


@dataclass(frozen=True)
class Served:
    """A running endpoint before SmolLM2, or before what behaves like it.

    `idle` tells whether nothing is computed any more; the service computes two answers at once.
    """

    url: str
    idle: Callable[[], Awaitable[bool]]

    def client(self) -> openai.AsyncOpenAI:
        """The official client, which must not try again by itself: then a case would not see the first answer."""
        return openai.AsyncOpenAI(base_url=f"{self.url}/v1", api_key="unused", max_retries=0, timeout=120)


Case = Callable[[Served], Awaitable[None]]
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function
