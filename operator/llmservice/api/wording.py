"""pydantic's errors in people's words."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, Final

from pydantic_core import ErrorDetails

from llmservice.api.findings import Finding, from_text, path_of
from llmservice.api.structural import Schema

_KINDS: Final[Mapping[str, str]] = {
    "int_type": "a whole number, without quotes",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number, without quotes",
    "float_type": "a number",
    "bool_type": "true or false, without quotes",
    "string_type": "text: put it in quotes",
    "list_type": "a list",
    "dict_type": "a map of names to values",
    "model_type": "an object with fields",
    "model_attributes_type": "an object with fields",
}


def finding_of(error: ErrorDetails, schema: Schema) -> Finding:
    """The finding for one pydantic error. `schema` is the root's; it knows the fields that could have been meant."""
    location = error["loc"]
    kind = error["type"]
    if kind in _KINDS:
        text = f"{_shown(error['input'])} is of the wrong type: write {_KINDS[kind]}"
        return from_text("schema-type", path_of(location), text)
    if kind == "missing":
        text = f"{location[-1]} is missing: {_purpose(location, schema)}"
        return from_text("schema-required", path_of(location), text)
    if kind == "extra_forbidden":
        text = unknown_field(str(location[-1]), location[:-1], schema)
        return from_text("schema-unknown-field", path_of(location), text)
    text = _BY_KIND.get(kind, _plain)(error)
    return from_text("schema-value", path_of(location), text)


def unknown_field(name: str, parent: tuple[str | int, ...], schema: Schema) -> str:
    """What to say of a field that `parent` does not have: the nearest one that it has, or all of them."""
    known = list(schema_at(parent, schema).get("properties", {}))
    lowered = {field.lower(): field for field in known}
    near = get_close_matches(name.lower().replace("_", ""), lowered, n=1, cutoff=0.6)
    if near:
        return f"unknown field {name}: did you mean {lowered[near[0]]}?"
    return f"unknown field {name}: remove it; the fields here are {', '.join(sorted(known))}"


def schema_at(location: tuple[str | int, ...], schema: Schema) -> Schema:
    """The schema of the value at `location`; an empty one where there is none."""
    for step in location:
        if isinstance(step, int):
            schema = schema.get("items", {})
        else:
            schema = schema.get("properties", {}).get(step) or schema.get("additionalProperties", {})
    return schema


def _purpose(location: tuple[str | int, ...], schema: Schema) -> str:
    description = schema_at(location, schema).get("description", "")
    return f"add it. It is: {description}" if description else "add it"


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _context(error: ErrorDetails) -> dict[str, Any]:
    return error.get("ctx", {})


def _plain(error: ErrorDetails) -> str:
    return f"{_shown(error['input'])} is refused: {error['msg'].removeprefix('Value error, ')}"


def _below(error: ErrorDetails) -> str:
    return f"{_shown(error['input'])} is too small: write at least {_context(error)['ge']}"


def _above(error: ErrorDetails) -> str:
    return f"{_shown(error['input'])} is too large: write at most {_context(error)['le']}"


def _enum(error: ErrorDetails) -> str:
    expected = _context(error)["expected"].replace("'", "")
    if error["input"] is False and "Off" in expected:
        return "YAML reads a bare Off as false: write 'Off', in quotes"
    return f"{_shown(error['input'])} is not a choice: write {expected}"


def _too_long(error: ErrorDetails) -> str:
    return f"this is too long: write at most {_context(error)['max_length']} of them"


def _text_too_long(error: ErrorDetails) -> str:
    return f"this is too long: write at most {_context(error)['max_length']} characters"


def _too_short(error: ErrorDetails) -> str:
    return f"{_shown(error['input'])} is too short: write at least {_context(error)['min_length']} characters"


def _pattern(error: ErrorDetails) -> str:
    return f"{_shown(error['input'])} has characters that cannot stand here: it must match {_context(error)['pattern']}"


def _own(error: ErrorDetails) -> str:
    return str(_context(error).get("error", error["msg"]))


_BY_KIND: Final[Mapping[str, Callable[[ErrorDetails], str]]] = {
    "greater_than_equal": _below,
    "less_than_equal": _above,
    "enum": _enum,
    "too_long": _too_long,
    "string_too_long": _text_too_long,
    "string_too_short": _too_short,
    "string_pattern_mismatch": _pattern,
    "value_error": _own,
}
