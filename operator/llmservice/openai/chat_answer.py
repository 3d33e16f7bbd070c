"""Answers of `/v1/chat/completions`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llmservice.openai.answer import Choice, Heading
from llmservice.openai.generation import Part, TokenLogprob


class ChatAnswer:
    """See `Answer`."""

    def __init__(self, heading: Heading, *, tell_logprobs: bool) -> None:
        self.heading = heading
        self._tell_logprobs = tell_logprobs

    def chunk(self, index: int, part: Part, *, first: bool) -> dict[str, Any]:
        """See `Answer`."""
        delta: dict[str, Any] = {"role": "assistant"} if first else {}
        if part.text or first:
            delta["content"] = part.text
        logprobs = self._logprobs(part.logprobs) if part.logprobs else None
        return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": part.finish_reason}

    def whole(self, choice: Choice) -> dict[str, Any]:
        """See `Answer`."""
        return {
            "index": choice.index,
            "message": {"role": "assistant", "content": choice.text, "refusal": None},
            "logprobs": self._logprobs(choice.logprobs) if self._tell_logprobs else None,
            "finish_reason": choice.finish_reason,
        }

    def _logprobs(self, logprobs: Sequence[TokenLogprob]) -> dict[str, Any]:
        return {
            "content": [
                {
                    **_token(one.token, one.logprob),
                    "top_logprobs": [_token(token, logprob) for token, logprob in one.top],
                }
                for one in logprobs
            ],
            "refusal": None,
        }


def _token(token: str, logprob: float) -> dict[str, Any]:
    return {"token": token, "logprob": logprob, "bytes": list(token.encode())}
