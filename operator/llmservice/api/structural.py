"""pydantic's JSON schema made structural: the dialect of OpenAPI v3 that a CustomResourceDefinition takes.

References are resolved, `anyOf: [X, null]` becomes X, noise is dropped, and every string, list and map must have a
bound, because the API server prices CEL rules by them. Nothing is `nullable`: the API server then drops a `null` as if
the field were left out, whereas a nullable one would reach the rules, and /scale refuses a null replica count.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from llmservice.api.duration import format_duration
from llmservice.api.schema import CODE, NO_DEFAULT, RULES

Schema = dict[str, Any]

_KEPT = (
    "type",
    "description",
    "enum",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minItems",
    "maxItems",
    "maxProperties",
)
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING = "x-kubernetes-int-or-string"


class _Generator(GenerateJsonSchema):
    """pydantic's generator, with default durations in Kubernetes form."""

    def encode_default(self, dft: Any) -> Any:
        return format_duration(dft) if isinstance(dft, timedelta) else super().encode_default(dft)


class UnboundedSchemaError(ValueError):
    """A string, list or map of an API type has no bound."""


def structural(model: type[BaseModel]) -> Schema:
    """The structural schema of `model`, rules included, each with its code under `x-code`.

    Raises UnboundedSchemaError with the path of a string, list or map without a bound.
    """
    raw = model.model_json_schema(by_alias=True, schema_generator=_Generator)
    schema = _convert(raw, raw.get("$defs", {}))
    _require_bounds(schema, model.__name__)
    return schema


def without_codes(schema: Schema) -> Schema:
    """`schema` as the API server takes it: rules without their codes."""
    clean: Schema = {}
    for key, value in schema.items():
        if key == RULES:
            clean[key] = [{k: v for k, v in rule.items() if k != CODE} for rule in value]
        elif key == "properties":
            clean[key] = {name: without_codes(child) for name, child in value.items()}
        elif key in ("items", "additionalProperties"):
            clean[key] = without_codes(value)
        else:
            clean[key] = value
    return clean


def _convert(raw: Schema, definitions: dict[str, Schema]) -> Schema:
    raw = _resolve(raw, definitions)
    schema: Schema = {key: raw[key] for key in _KEPT if key in raw}
    if "const" in raw:
        schema["enum"] = [raw["const"]]
    schema |= {key: value for key, value in raw.items() if key.startswith("x-kubernetes-")}
    if "description" in schema:
        schema["description"] = " ".join(schema["description"].split())
    if "items" in raw:
        schema["items"] = _convert(raw["items"], definitions)
    if "properties" in raw:
        schema["properties"] = {name: _convert(child, definitions) for name, child in raw["properties"].items()}
        if raw.get("required"):
            schema["required"] = sorted(raw["required"])
    elif isinstance(raw.get("additionalProperties"), dict):
        schema["additionalProperties"] = _convert(raw["additionalProperties"], definitions)
    _carry_default(raw, schema)
    return schema


def _resolve(raw: Schema, definitions: dict[str, Schema]) -> Schema:
    """`raw` with its reference and its `null` alternative folded in; what stands beside them wins."""
    if "anyOf" in raw:
        others = [option for option in raw["anyOf"] if option.get("type") != "null"]
        if len(others) != 1:
            raise ValueError(f"a structural schema cannot say {raw['anyOf']}: use one type")
        inner = _resolve(others[0], definitions)
        raw = inner | {key: value for key, value in raw.items() if key != "anyOf"}
    if "$ref" in raw:
        inner = _resolve(definitions[raw["$ref"].rsplit("/", 1)[1]], definitions)
        raw = inner | {key: value for key, value in raw.items() if key != "$ref"}
    return raw


def _carry_default(raw: Schema, schema: Schema) -> None:
    """Scalar defaults are kept; an object's is that of its fields, in full; empty ones say nothing.

    In full, because the API server runs an object's rules on its default before it fills in what is below.
    """
    default = raw.get("default")
    if raw.get(NO_DEFAULT) or default is None:
        return
    if "properties" in schema:
        below = {name: child["default"] for name, child in schema["properties"].items() if "default" in child}
        if below and not schema.get("required"):
            schema["default"] = below
    elif default != [] and default != {}:
        schema["default"] = default


def _require_bounds(schema: Schema, path: str) -> None:
    kind = schema.get("type")
    if kind == "string" and not ({"maxLength", "enum", "format"} & schema.keys()):
        raise UnboundedSchemaError(f"{path}: a string needs max_length")
    if kind == "array":
        if "maxItems" not in schema:
            raise UnboundedSchemaError(f"{path}: a list needs max_length")
        _require_bounds(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        if "maxProperties" not in schema:
            raise UnboundedSchemaError(f"{path}: a map needs max_length")
        _require_bounds(schema["additionalProperties"], f"{path}{{}}")
    if kind is None and not schema.get(_INT_OR_STRING) and not schema.get(_PRESERVE):
        raise UnboundedSchemaError(f"{path}: no type")
    for name, child in schema.get("properties", {}).items():
        _require_bounds(child, f"{path}.{name}")
