"""What can go wrong between a service and its repository on disk."""

from __future__ import annotations


class RenderError(ValueError):
    """A service that cannot be rendered: which field, what is wrong with it, what to write instead."""

    def __init__(self, field_path: str, message: str) -> None:
        super().__init__(f"{field_path}: {message}")
        self.field_path = field_path
        self.message = message


class UnknownTritonVersionError(ValueError):
    """A Triton version that is no version, or older than every version whose behaviour is known."""


class RepositoryWriteError(OSError):
    """The repository could not be written; what was there before is unchanged."""

    def __str__(self) -> str:
        return str(self.args[-1])


class CodeNotFoundError(RepositoryWriteError):
    """The code of a gate or an engine is not in this installation."""
