"""Label and field selectors: as text for the API server, as predicates for the fake."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmservice.kube.resources import Manifest


def label_selector(labels: Mapping[str, str]) -> str:
    """The selector for objects that have all these labels, in a stable order."""
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items()))


def matches_labels(manifest: Manifest, labels: Mapping[str, str]) -> bool:
    """Whether the object has all these labels."""
    found = manifest["metadata"].get("labels") or {}
    return all(found.get(name) == value for name, value in labels.items())


def matches_fields(manifest: Manifest, selector: str) -> bool:
    """Whether the object's fields satisfy `path=value,path!=value`; a field that is absent reads as empty."""
    for term in filter(None, selector.split(",")):
        path, operator, value = term.partition("!=") if "!=" in term else term.partition("=")
        equal = str(_at(manifest, path)) == value.removeprefix("=")
        if equal == (operator == "!="):
            return False
    return True


def _at(manifest: Manifest, path: str) -> Any:
    value: Any = manifest
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return "" if value is None else value
