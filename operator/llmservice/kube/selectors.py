"""Label and field selectors, as text for the API server and as predicates, and the fields that they name."""

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
        found = field_at(manifest, path)
        equal = ("" if found is None else str(found)) == value.removeprefix("=")
        if equal == (operator == "!="):
            return False
    return True


def field_at(manifest: Mapping[str, Any], path: str) -> Any:
    """The value at `spec.model.source`, through maps alone; None where there is none."""
    value: Any = manifest
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
