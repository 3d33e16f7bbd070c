"""What is asked of the gate, and what comes back: the two forms between HTTP and gRPC."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Generation:
    """One request to the gate: exactly one of `prompt` and `messages` is set.

    `sampling` has the gate's own names. `priority` None is the service's default level. `client` names who asks:
    clients of one level take turns. `timeout_seconds` is how long the whole answer may take. With `stream` parts come
    as they are computed, else all at the end.
    """

    prompt: str | None
    messages: tuple[Mapping[str, str], ...] | None
    sampling: Mapping[str, Any]
    stream: bool
    timeout_seconds: float
    priority: int | None = None
    client: str = ""
    request_id: str = ""


@dataclass(frozen=True)
class TokenLogprob:
    """A token with the natural logarithm of its probability, and the likeliest tokens of its place."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Part:
    """A piece of one answer; `index` tells which of several. The last one has `finish_reason` and the counts."""

    index: int = 0
    text: str = ""
    finish_reason: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    logprobs: tuple[TokenLogprob, ...] = ()


class Backend(Protocol):
    """Where answers come from."""

    def generate(self, generation: Generation) -> AsyncIterator[Part]:
        """The parts of the answers, in the order of their tokens. Raises ApiError. Closing it cancels the request."""

    async def ready(self) -> bool:
        """Whether the model takes requests."""
