"""What validation says: findings with a place, a reason and a remedy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

Location = tuple[str | int, ...]


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong. `message` says what, `remedy` what to write instead, `field_path` where."""

    code: str
    field_path: str
    message: str
    remedy: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in (f"{self.field_path}:" if self.field_path else "", self.text) if part)

    @property
    def text(self) -> str:
        """Message and remedy, as two sentences."""
        return f"{self.message} {self.remedy}".strip()


@dataclass(frozen=True)
class Findings:
    """Everything that validation says of one manifest. Only errors keep a service from being served."""

    errors: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()

    @property
    def valid(self) -> bool:
        """Whether the manifest may be served."""
        return not self.errors


_REMEDY_MARK: Final = ": "


def from_text(code: str, field_path: str, text: str) -> Finding:
    """A finding from a rule's text, `what is wrong: what to write instead`."""
    wrong, mark, remedy = text.partition(_REMEDY_MARK)
    if not mark:
        return Finding(code, field_path, _sentence(text))
    return Finding(code, field_path, _sentence(wrong), _sentence(remedy[:1].upper() + remedy[1:]))


def path_of(location: Sequence[str | int]) -> str:
    """A location as people write it: `spec.queue.levels[0].level`."""
    path = ""
    for step in location:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
