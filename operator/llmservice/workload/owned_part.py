"""The part of a live object that a field manager owns: what it must send again to change nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from llmservice.workload.manifest import Manifest


def owned_part(live: Manifest, manager: str) -> Manifest | None:
    """The fields of `live` that `manager` applied, without defaults and without what others wrote.

    None when the object does not say who owns what. Reads `metadata.managedFields` in the FieldsV1 form of
    structured-merge-diff v4: `f:<field>`, `k:<key of a list item>`, `v:<value of a set>`; an empty map is a leaf.
    A leaf is taken whole, so an atomic map such as `fieldRef` brings its default `apiVersion` along.
    """
    for entry in live.get("metadata", {}).get("managedFields", []):
        if entry.get("manager") == manager and entry.get("operation") == "Apply" and not entry.get("subresource"):
            part: Manifest = _project(live, entry.get("fieldsV1", {}))
            return part
    return None


def _project(value: Any, fields: Mapping[str, Any]) -> Any:
    """`value` cut down to `fields`."""
    paths = {path: inner for path, inner in fields.items() if path != "."}
    if not paths:
        return value
    if isinstance(value, list):
        return _project_list(value, paths)
    if not isinstance(value, dict):
        return value
    return {
        path[2:]: _project(value[path[2:]], inner)
        for path, inner in paths.items()
        if path.startswith("f:") and path[2:] in value
    }


def _project_list(items: list[Any], paths: Mapping[str, Any]) -> list[Any]:
    """Items in the order of the live list, which is the order in which they were applied."""
    kept = []
    for item in items:
        for path, inner in paths.items():
            kind, _, text = path.partition(":")
            if kind == "k" and isinstance(item, dict) and _matches(item, json.loads(text)):
                kept.append(_project(item, inner))
            elif kind == "v" and item == json.loads(text):
                kept.append(item)
    return kept


def _matches(item: Mapping[str, Any], key: Mapping[str, Any]) -> bool:
    return all(item.get(name) == value for name, value in key.items())
