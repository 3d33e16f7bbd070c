"""What the gate needs from the one who asked: a way to answer, and whether anyone still listens."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from llmserving.engine import Output


class Fault(StrEnum):
    """Whose fault an error is, in Triton's words."""

    INVALID_ARG = "INVALID_ARG"
    UNAVAILABLE = "UNAVAILABLE"
    INTERNAL = "INTERNAL"


class Client(Protocol):
    """One request's client. One thread at a time may call; nothing may be called after `last`, `fail` or `end`."""

    def token(self, output: Output) -> None:
        """Sends one streamed response; the last one of an answer has a finish reason."""

    def last(self, outputs: Sequence[Output]) -> None:
        """Sends the last response: what is left of one answer, or, when nothing was streamed, all answers whole."""

    def fail(self, message: str, fault: Fault) -> None:
        """Answers with an error."""

    def end(self) -> None:
        """Ends without a response: nobody listens any more."""

    def cancelled(self) -> bool:
        """Whether the client left. A round trip to the server: ask seldom."""
