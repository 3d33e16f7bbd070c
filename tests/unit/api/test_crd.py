from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, Any

import pytest
from pydantic import Field

from llmservice.api.crd import crd, crd_yaml, schema
from llmservice.api.duration import Duration
from llmservice.api.schema import NO_DEFAULT, RULES, ApiModel, Rule
from llmservice.api.structural import UnboundedSchemaError, structural, without_codes

pytestmark = pytest.mark.unit


def nodes(node: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in node:
            yield from nodes(node[key], f"{path}[]")


class Inner(ApiModel):
    """The inner object."""

    size: Annotated[int, Field(ge=1, le=9, description="A size.")] = 3

    rules = (Rule("own-inner", "self.size < 9", '"too large: write less"', field_path=".size"),)


class Outer(ApiModel):
    """The outer object."""

    required_name: Annotated[str, Field(max_length=8)]
    inner: Inner = Inner()
    optional: Inner | None = None
    wait: Duration = timedelta(milliseconds=5)
    quiet: Annotated[int, Field(json_schema_extra={NO_DEFAULT: True})] = 7
    names: Annotated[list[Annotated[str, Field(max_length=4)]], Field(max_length=2)] = []


def test_references_are_resolved_and_only_what_the_api_server_takes_is_left() -> None:
    allowed = {
        *("type", "description", "enum", "minimum", "maximum", "minLength", "maxLength", "pattern", "format"),
        *("minItems", "maxItems", "maxProperties", "properties", "items", "additionalProperties", "required"),
        *("default", RULES, "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"),
        *("x-kubernetes-list-type", "x-kubernetes-list-map-keys"),
    }
    for path, node in nodes(schema(), ""):
        assert set(node) <= allowed, path


def test_an_optional_object_is_no_union_and_has_no_default() -> None:
    optional = structural(Outer)["properties"]["optional"]
    assert optional["type"] == "object"
    assert "default" not in optional
    assert "nullable" not in optional


def test_the_default_of_an_object_is_that_of_its_fields_in_full() -> None:
    assert structural(Outer)["properties"]["inner"]["default"] == {"size": 3}


def test_an_object_with_a_required_field_has_no_default() -> None:
    assert "default" not in structural(Outer)


def test_a_default_duration_has_kubernetes_form() -> None:
    assert structural(Outer)["properties"]["wait"]["default"] == "5ms"


def test_a_default_can_be_kept_out_so_that_rules_see_what_was_written() -> None:
    assert "default" not in structural(Outer)["properties"]["quiet"]


def test_an_empty_list_is_no_default() -> None:
    assert "default" not in structural(Outer)["properties"]["names"]


def test_a_rule_stands_where_its_class_stands_and_keeps_its_code_to_itself() -> None:
    with_code = structural(Outer)
    rule = {"rule": "self.size < 9", "message": "too large: write less", "fieldPath": ".size"}
    assert with_code["properties"]["inner"][RULES] == [{"x-code": "own-inner"} | rule]
    assert without_codes(with_code)["properties"]["optional"][RULES] == [rule]


def test_a_message_with_values_becomes_a_message_expression() -> None:
    entry = Rule("own-x", "self.size < 9", '"%d is too large".format([self.size])').schema()
    assert entry["messageExpression"] == '"%d is too large".format([self.size])'
    assert "message" not in entry


class UnboundedText(ApiModel):
    text: str


class UnboundedList(ApiModel):
    items: list[Annotated[str, Field(max_length=4)]]


class UnboundedMap(ApiModel):
    entries: dict[str, Annotated[str, Field(max_length=4)]]


@pytest.mark.parametrize("model", [UnboundedText, UnboundedList, UnboundedMap])
def test_a_field_without_a_bound_stops_the_generator(model: type[ApiModel]) -> None:
    with pytest.raises(UnboundedSchemaError, match=model.__name__):
        structural(model)


class Union(ApiModel):
    either: int | str


def test_a_union_stops_the_generator() -> None:
    with pytest.raises(ValueError, match="structural schema cannot say"):
        structural(Union)


def test_every_field_of_the_spec_is_described() -> None:
    for path, node in nodes(schema()["properties"]["spec"], "spec"):
        if not path.endswith("[]"):
            assert node.get("description"), path


def test_the_text_is_the_same_every_time_and_well_below_the_limit() -> None:
    schema.cache_clear()
    first = crd_yaml()
    schema.cache_clear()
    assert crd_yaml() == first
    assert len(first.encode()) < 256 * 1024
    assert "x-code" not in first


def test_names_and_subresources() -> None:
    spec = crd()["spec"]
    assert spec["names"]["shortNames"] == ["llm"]
    assert spec["names"]["categories"] == ["triton-llm"]
    scale = spec["versions"][0]["subresources"]["scale"]
    assert scale == {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
