"""One thing that is wrong in a `config.pbtxt`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """`ERROR`: Triton refuses the model. `WARNING`: Triton takes it and does something else than it reads like."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class PbtxtFinding:
    """What is wrong (`message`), what to write instead (`remedy`), and where (`line` counts from 1, 0: nowhere).

    `code` is V1 to V25 for rules that Triton enforces, `syntax-…` for text that does not parse, `trap-…` for text that
    Triton accepts silently and gets wrong.
    """

    severity: Severity
    code: str
    line: int
    message: str
    remedy: str
    filename: str = ""

    @property
    def text(self) -> str:
        """Message and remedy, as sentences."""
        return f"{self.message} {self.remedy}".strip()

    def __str__(self) -> str:
        return f"{self.filename}:{self.line}: {self.severity} {self.code}: {self.text}"


class Lines:
    """The line of a field by its path: `line("dynamic_batching", "priority_levels")`; 0 when it is not written."""

    def __init__(self, written: Iterable[tuple[tuple[str, ...], int]]) -> None:
        self._lines: dict[tuple[str, ...], list[int]] = {}
        for path, line in written:
            self._lines.setdefault(path, []).append(line)

    def __call__(self, *path: str, index: int = 0) -> int:
        """The line where the `index`-th field of this path begins."""
        lines = self._lines.get(path, [])
        return lines[index] if index < len(lines) else 0


def error(code: str, line: int, message: str, remedy: str) -> PbtxtFinding:
    """What Triton refuses."""
    return PbtxtFinding(Severity.ERROR, code, line, message, remedy)


def warning(code: str, line: int, message: str, remedy: str) -> PbtxtFinding:
    """What Triton accepts and gets wrong."""
    return PbtxtFinding(Severity.WARNING, code, line, message, remedy)
