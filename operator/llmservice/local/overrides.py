"""What the command line says instead of the file."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Overrides:
    """Values of the command line as they were written; None where the file decides. Validation judges them."""

    mode: str | None = None
    backend: str | None = None
    delay: str | None = None

    def apply(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """A copy of `manifest` with the overrides in it. One that is too malformed to take them stays as it is."""
        changed = copy.deepcopy(dict(manifest))
        for path, _, value in self._given():
            part: Any = changed
            for step in path[:-1]:
                part = part.setdefault(step, {}) if isinstance(part, dict) else None
            if isinstance(part, dict):
                part[path[-1]] = value
        return changed

    def options(self) -> Mapping[str, str]:
        """The option that decides, by the field it decides."""
        return {".".join(path): f"{option} {value}" for path, option, value in self._given()}

    def _given(self) -> Iterator[tuple[tuple[str, ...], str, str]]:
        for path, option, value in (
            (("spec", "batching", "mode"), "--mode", self.mode),
            (("spec", "engine", "backend"), "--backend", self.backend),
            (("spec", "batching", "maxQueueDelay"), "--delay", self.delay),
        ):
            if value is not None:
                yield path, option, value
