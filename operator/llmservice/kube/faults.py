"""Calls of the fake API server: their journal, and errors that tests plan for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from llmservice.kube.resources import Resource

READS: Final = frozenset({"get", "list", "logs", "version"})


@dataclass(frozen=True)
class Call:
    """One call: `verb` is the client's method (`get`, `list`, `apply`, `create`, `replace`, `delete`, `logs`)."""

    verb: str
    resource: Resource | None = None
    namespace: str | None = None
    name: str = ""
    subresource: str = ""

    @property
    def writes(self) -> bool:
        """Whether the call may change the world."""
        return self.verb not in READS


@dataclass
class Fault:
    """An error for the `nth` matching call and the `times - 1` after it.

    With `after_write` the call does its work and only the answer is lost, as when a connection breaks too late.
    """

    error: Exception
    verb: str | None = None
    resource: Resource | None = None
    name: str | None = None
    nth: int = 1
    times: int = 1
    after_write: bool = False
    seen: int = field(default=0, init=False)

    def strikes(self, call: Call) -> bool:
        """Count the call when it matches; whether this one is to fail."""
        matches = (
            self.verb in (None, call.verb) and self.resource in (None, call.resource) and self.name in (None, call.name)
        )
        if not matches:
            return False
        self.seen += 1
        return self.nth <= self.seen < self.nth + self.times


@dataclass
class Journal:
    """What was called, in order, and what is to fail."""

    calls: list[Call] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def enter(self, call: Call) -> Fault | None:
        """Note the call; the fault that strikes it, if any. Every fault counts every call that matches it."""
        self.calls.append(call)
        striking = [fault for fault in self.faults if fault.strikes(call)]
        return striking[0] if striking else None

    def writes(self) -> list[Call]:
        """The calls that may have changed the world."""
        return [call for call in self.calls if call.writes]

    def names(self, verb: str, resource: Resource | None = None) -> Iterator[str]:
        """The names that a verb was called for."""
        return (c.name for c in self.calls if c.verb == verb and resource in (None, c.resource))
