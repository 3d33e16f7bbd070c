"""Defaults as the API server fills them in, so that a rule sees the same object here and there."""

from __future__ import annotations

from typing import Any

from llmservice.api.structural import Schema


def with_defaults(value: Any, schema: Schema) -> Any:
    """A copy of `value` with the schema's defaults. A `null` counts as left out, as the API server reads it."""
    if isinstance(value, dict) and "properties" in schema:
        return _with_object_defaults(value, schema)
    if isinstance(value, dict) and "additionalProperties" in schema:
        return {key: with_defaults(item, schema["additionalProperties"]) for key, item in value.items()}
    if isinstance(value, list) and "items" in schema:
        return [with_defaults(item, schema["items"]) for item in value]
    return value


def _with_object_defaults(value: dict[str, Any], schema: Schema) -> dict[str, Any]:
    filled = {}
    for name, item in value.items():
        child = schema["properties"].get(name, {})
        if item is not None or not (child.get("nullable") or "default" in child):
            filled[name] = with_defaults(item, child)
    for name, child in schema["properties"].items():
        if name not in filled and "default" in child:
            filled[name] = with_defaults(child["default"], child)
    return filled
