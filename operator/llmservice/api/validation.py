"""Everything the API server would say of a manifest, said without one.

The reconciler needs it for objects that were stored before a rule existed, `llmservice validate` for files. Types are
pydantic's, rules are the CRD's own CEL, so there is one source for both.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import ValidationError

from llmservice.api.crd import schema as crd_schema
from llmservice.api.defaults import with_defaults, without_nulls
from llmservice.api.expressions import ExpressionError, evaluate
from llmservice.api.findings import Finding, Findings, Location, from_text, path_of
from llmservice.api.schema import CODE, RULES
from llmservice.api.service import API_VERSION, KIND, LLMService
from llmservice.api.structural import Schema
from llmservice.api.warnings import warnings_of
from llmservice.api.wording import finding_of, unknown_field

__all__ = ["Finding", "Findings", "validate"]

_ROOT_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})


def validate(manifest: Mapping[str, Any]) -> Findings:
    """What is wrong with a manifest (errors) and what is accepted but likely wrong (warnings)."""
    schema = crd_schema()
    asked = {key: value for key, value in manifest.items() if key != "status"}
    errors = [*_kind_errors(asked), *_unknown_root_fields(asked, schema)]
    typed = _type_errors(asked, schema)
    filled = with_defaults(asked, schema)
    broken = list(_rule_errors(filled, schema, typed_wrong=bool(typed)))
    told = {finding.field_path for finding in broken}
    errors += [finding for finding in typed if finding.field_path not in told]
    errors += broken
    return Findings(tuple(errors), () if typed else warnings_of(filled))


def _kind_errors(manifest: Mapping[str, Any]) -> Iterator[Finding]:
    for field, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        written = manifest.get(field, expected)
        if written != expected:
            yield from_text("schema-kind", field, f"{written} is not known here: write {expected}")


def _unknown_root_fields(manifest: Mapping[str, Any], schema: Schema) -> Iterator[Finding]:
    for name in manifest:
        if name not in _ROOT_FIELDS:
            yield from_text("schema-unknown-field", name, unknown_field(name, (), schema))


def _type_errors(manifest: Mapping[str, Any], schema: Schema) -> list[Finding]:
    """Pydantic's errors. As JSON and strict, because the API server takes no "5" for 5 either."""
    pruned = without_nulls(dict(manifest), schema)
    if "metadata" in pruned:  # of which the schema knows only the name; the API server checks the rest itself
        pruned["metadata"] = without_nulls(manifest["metadata"])
    try:
        LLMService.model_validate_json(json.dumps(pruned, default=str), strict=True, by_name=False)
    except ValidationError as error:
        return [finding_of(detail, schema) for detail in error.errors()]
    return []


def _rule_errors(manifest: Any, schema: Schema, *, typed_wrong: bool) -> Iterator[Finding]:
    for location, value, rule in _rules(manifest, schema, ()):
        variables = {"self": value}
        try:
            if evaluate(rule["rule"], variables):
                continue
            text = rule.get("message") or evaluate(rule["messageExpression"], variables)
        except ExpressionError as error:
            if not typed_wrong:  # else the error about the type says it already
                yield Finding(rule[CODE], path_of(location), f"the rule could not be checked: {error}")
            continue
        path = path_of(location) + rule.get("fieldPath", "")
        yield from_text(rule[CODE], path.removeprefix("."), text)


def _rules(value: Any, schema: Schema, location: Location) -> Iterator[tuple[Location, Any, dict[str, Any]]]:
    """Every rule that applies somewhere in `value`, with where it applies and to what."""
    for rule in schema.get(RULES, []):
        yield location, value, rule
    if isinstance(value, dict):
        for name, item in value.items():
            child = schema.get("properties", {}).get(name) or schema.get("additionalProperties")
            if child and item is not None:
                yield from _rules(item, child, (*location, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _rules(item, schema.get("items", {}), (*location, index))
