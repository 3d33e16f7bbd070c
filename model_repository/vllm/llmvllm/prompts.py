"""A request's prompt or conversation -> tokens that fit, or an error in words."""

from __future__ import annotations

from llmserving.engine import Request
from llmserving.tokenizer import TextTokenizer


class RequestError(ValueError):
    """A request that cannot be served; the message says why and what to send instead."""


class Prompts:
    """Encodes the requests of a service whose prompts and answers have at most `max_length` tokens together."""

    def __init__(self, tokenizer: TextTokenizer, max_length: int) -> None:
        self._tokenizer = tokenizer
        self.max_length = max_length

    def encode(self, request: Request) -> list[int]:
        """The tokens; at least one of answer fits behind them. Raises `RequestError`."""
        if (request.prompt is None) == (request.messages is None):
            raise RequestError("send exactly one of text_input and messages")
        try:
            if request.messages is not None:
                tokens = self._tokenizer.encode_chat(request.messages)
            else:
                tokens = self._tokenizer.encode(request.prompt or "")
        except (ValueError, TypeError) as error:
            raise RequestError(str(error)) from error
        if not tokens:
            raise RequestError("the prompt is empty: send at least one token")
        if len(tokens) >= self.max_length:
            raise RequestError(
                f"the prompt has {len(tokens)} tokens; with at least one token of answer the longest this service "
                f"takes is {self.max_length - 1} (spec.model.maxLength {self.max_length}): send a shorter one"
            )
        return tokens
