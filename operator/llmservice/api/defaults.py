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


def without_nulls(value: Any, schema: Schema | None = None) -> Any:
    """A copy of `value` without the fields that are `null`; with a schema, only those that it knows."""
    if isinstance(value, dict):
        return {
            key: without_nulls(item, _child(schema, key))
            for key, item in value.items()
            if item is not None or _child(schema, key) == {}
        }
    if isinstance(value, list):
        return [without_nulls(item, None if schema is None else schema.get("items", {})) for item in value]
    return value


def _child(schema: Schema | None, name: str) -> Schema | None:
    """The schema of one field; an empty one where it is unknown, None where nothing is known to compare with."""
    if schema is None or schema.get("x-kubernetes-preserve-unknown-fields"):
        return None
    child: Schema = schema.get("properties", {}).get(name) or schema.get("additionalProperties", {})
    return child


def _with_object_defaults(value: dict[str, Any], schema: Schema) -> dict[str, Any]:
    known, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    filled = {name: with_defaults(item, known.get(name, others)) for name, item in value.items() if item is not None}
    for name, child in known.items():
        if name not in filled and "default" in child:
            filled[name] = with_defaults(child["default"], child)
    return filled
