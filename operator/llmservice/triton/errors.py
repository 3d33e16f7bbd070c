"""What Triton, or the way to it, answered instead of a result."""

from __future__ import annotations

from enum import StrEnum


class ErrorCode(StrEnum):
    """gRPC status codes that Triton uses, by their gRPC names; every other one is `UNKNOWN`."""

    CANCELLED = "CANCELLED"
    UNKNOWN = "UNKNOWN"
    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    DEADLINE_EXCEEDED = "DEADLINE_EXCEEDED"
    NOT_FOUND = "NOT_FOUND"
    ALREADY_EXISTS = "ALREADY_EXISTS"
    UNIMPLEMENTED = "UNIMPLEMENTED"
    INTERNAL = "INTERNAL"
    UNAVAILABLE = "UNAVAILABLE"
    UNAUTHENTICATED = "UNAUTHENTICATED"

    @classmethod
    def parse(cls, status: str | None) -> ErrorCode:
        """The code in `StatusCode.<NAME>`."""
        name = (status or "").removeprefix("StatusCode.")
        return cls(name) if name in cls.__members__ else cls.UNKNOWN


class TritonError(RuntimeError):
    """One failed call: its code, and Triton's own message. `call` says what was asked of whom."""

    def __init__(self, code: ErrorCode, message: str, call: str = "") -> None:
        super().__init__(f"{call}: {message} ({code})" if call else f"{message} ({code})")
        self.code = code
        self.message = message
        self.call = call
