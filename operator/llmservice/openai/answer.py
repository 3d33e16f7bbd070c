"""What a client reads: whole answers and the chunks of a stream, around what each kind of request puts into them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from llmservice.openai.generation import Part, TokenLogprob

DONE: Final = b"data: [DONE]\n\n"


@dataclass(frozen=True)
class Heading:
    """What stands in every message about one request; `created` is in seconds since 1970."""

    id: str
    kind: str
    created: int
    model: str

    def fields(self, kind: str) -> dict[str, Any]:
        """The fields, with the object's kind."""
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


@dataclass
class Choice:
    """One answer as far as it has come."""

    index: int
    text: str = ""
    finish_reason: str | None = None
    logprobs: tuple[TokenLogprob, ...] = ()

    def take(self, part: Part) -> None:
        """Adds a part."""
        self.text += part.text
        self.logprobs += part.logprobs
        self.finish_reason = part.finish_reason or self.finish_reason


@dataclass
class Usage:
    """Tokens of a request. A prompt counts once, however many answers it got."""

    prompts: dict[int, int] = field(default_factory=dict)
    output_tokens: int = 0

    def take(self, prompt: int, part: Part) -> None:
        """Counts what the last part of an answer says."""
        if part.finish_reason is not None:
            self.prompts[prompt] = part.input_tokens
            self.output_tokens += part.output_tokens

    @property
    def input_tokens(self) -> int:
        """Tokens of all prompts."""
        return sum(self.prompts.values())

    def body(self) -> dict[str, int]:
        """OpenAI's form."""
        return {
            "prompt_tokens": self.input_tokens,
            "completion_tokens": self.output_tokens,
            "total_tokens": self.input_tokens + self.output_tokens,
        }


class Answer(Protocol):
    """How one kind of request tells its choices."""

    heading: Heading

    def chunk(self, index: int, part: Part, *, first: bool) -> dict[str, Any]:
        """The choice in a chunk of a stream; `first` is the first one of this choice."""

    def whole(self, choice: Choice) -> dict[str, Any]:
        """The choice in a whole answer."""


def whole_body(answer: Answer, choices: Sequence[Choice], usage: Usage) -> dict[str, Any]:
    """The body of an answer that comes at once."""
    told = [answer.whole(choice) for choice in choices]
    return {**answer.heading.fields(answer.heading.kind), "choices": told, "usage": usage.body()}


class Events:
    """The events of one stream. With `include_usage` the last chunk counts tokens, and all others say null."""

    def __init__(self, answer: Answer, *, include_usage: bool) -> None:
        self._answer = answer
        self._begun: set[int] = set()
        chunk = answer.heading.kind if answer.heading.kind == "text_completion" else f"{answer.heading.kind}.chunk"
        # The same for every chunk, so it is encoded once.
        self._before = f'data: {json.dumps(answer.heading.fields(chunk))[:-1]}, "choices": ['.encode()
        self._after = b'], "usage": null}\n\n' if include_usage else b"]}\n\n"

    def part(self, index: int, part: Part) -> bytes:
        """The event of a part; empty where it tells nothing."""
        first = index not in self._begun
        if not (first or part.text or part.finish_reason or part.logprobs):
            return b""
        self._begun.add(index)
        choice = self._answer.chunk(index, part, first=first)
        return self._before + json.dumps(choice, ensure_ascii=False).encode() + self._after

    def usage(self, usage: Usage) -> bytes:
        """The event that counts tokens."""
        return self._before + f'], "usage": {json.dumps(usage.body())}}}\n\n'.encode()

    @staticmethod
    def failure(body: dict[str, Any]) -> bytes:
        """The event of an error in the middle of a stream."""
        return f"data: {json.dumps(body, ensure_ascii=False)}\n\n".encode()
