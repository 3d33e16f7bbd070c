"""Answers of `/v1/completions`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from llmservice.openai.answer import Choice, Heading
from llmservice.openai.generation import Part, TokenLogprob


class CompletionAnswer:
    """See `Answer`. `echo` holds the prompt that goes before each choice; empty where none does."""

    def __init__(self, heading: Heading, *, tell_logprobs: bool, echo: Sequence[str] = ()) -> None:
        self.heading = heading
        self._tell_logprobs = tell_logprobs
        self._echo = echo
        self._told: dict[int, int] = {}

    def chunk(self, index: int, part: Part, *, first: bool) -> dict[str, Any]:
        """See `Answer`."""
        text = (self._prompt(index) if first else "") + part.text
        start = self._told.get(index, 0)
        self._told[index] = start + sum(len(one.token) for one in part.logprobs)
        logprobs = _logprobs(part.logprobs, start) if part.logprobs else None
        return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": part.finish_reason}

    def whole(self, choice: Choice) -> dict[str, Any]:
        """See `Answer`."""
        return {
            "index": choice.index,
            "text": self._prompt(choice.index) + choice.text,
            "logprobs": _logprobs(choice.logprobs, 0) if self._tell_logprobs else None,
            "finish_reason": choice.finish_reason,
        }

    def _prompt(self, index: int) -> str:
        return self._echo[index] if self._echo else ""


def _logprobs(logprobs: Sequence[TokenLogprob], start: int) -> dict[str, Any]:
    """OpenAI's older form; offsets count characters from the start of the answer."""
    offsets = accumulate((len(one.token) for one in logprobs), initial=start)
    return {
        "tokens": [one.token for one in logprobs],
        "token_logprobs": [one.logprob for one in logprobs],
        "top_logprobs": [dict(one.top) for one in logprobs],
        "text_offset": list(offsets)[: len(logprobs)],
    }
