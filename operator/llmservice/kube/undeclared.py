"""Fields that the API server's schema does not have: found in its refusal of an apply, and taken out.

A server-side apply with an unknown field fails as a whole, whatever `fieldValidation` asks for, and names the first:
`.status.queue.depth: field not declared in schema`.
"""

from __future__ import annotations

import re
from typing import Any

_REFUSAL = re.compile(r"(?P<path>(?:\.[A-Za-z0-9_-]+|\[[^\]]*\])+): field not declared in schema")
_STEP = re.compile(r"\.(?P<name>[A-Za-z0-9_-]+)|(?P<item>\[[^\]]*\])")


def undeclared_field(message: str) -> str | None:
    """The path of the unknown field in a refusal, None when the message is about something else."""
    found = _REFUSAL.search(message)
    return found["path"] if found else None


def drop_field(manifest: dict[str, Any], path: str) -> bool:
    """Take the field at `path` out of the manifest, in every item of a list on the way; whether it was there."""
    *parents, last = [step["name"] for step in _STEP.finditer(path)]
    holders: list[Any] = [manifest]
    for name in parents:
        holders = [child for holder in holders for child in _children(holder, name)]
    dropped = False
    for holder in holders:
        for item in holder if isinstance(holder, list) else [holder]:
            if last is not None and isinstance(item, dict) and last in item:
                del item[last]
                dropped = True
    return dropped


def _children(holder: Any, name: str | None) -> list[Any]:
    if name is None:  # `[…]`: which item is not told apart
        return holder if isinstance(holder, list) else []
    return [holder[name]] if isinstance(holder, dict) and name in holder else []
