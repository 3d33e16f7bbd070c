"""Defaults as the API server fills them in, so that a rule sees the same object here and there."""

from __future__ import annotations

from typing import Any

from llmservice.api.structural import Schema


def with_defaults(value: Any, schema: Schema) -> Any:
    """A copy of `value` with the schema's defaults. A `null` field counts as left out, as the API server reads it."""
    if isinstance(value, dict):
        return _with_object_defaults(value, schema)
    if isinstance(value, list):
        return [with_defaults(item, schema.get("items", {})) for item in value]
    return value


def without_nulls(value: Any) -> Any:
    """A copy of `value` without the fields that are `null`."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def _with_object_defaults(value: dict[str, Any], schema: Schema) -> dict[str, Any]:
    known, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    filled = {name: with_defaults(item, known.get(name, others)) for name, item in value.items() if item is not None}
    for name, child in known.items():
        if name not in filled and "default" in child:
            filled[name] = with_defaults(child["default"], child)
    return filled
