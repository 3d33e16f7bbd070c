"""Which service a log line is about: set once for a pass, read by the log formatter."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_about: ContextVar[dict[str, object] | None] = ContextVar("llmservice_about", default=None)
SERVICE: Final = "service"
GENERATION: Final = "generation"


@contextmanager
def about(key: tuple[str, str]) -> Iterator[None]:
    """Within: log lines carry the service."""
    mark = _about.set({SERVICE: f"{key[0]}/{key[1]}"})
    try:
        yield
    finally:
        _about.reset(mark)


def note_generation(generation: int) -> None:
    """From here on log lines of this pass carry the generation, too."""
    known = _about.get()
    if known is not None:
        known[GENERATION] = generation


def fields() -> dict[str, object]:
    """The fields of the current pass; empty outside of one."""
    return dict(_about.get() or {})
