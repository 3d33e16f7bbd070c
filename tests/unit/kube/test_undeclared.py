"""Fields that an older CRD does not know are found in the refusal and taken out, nothing else."""

from __future__ import annotations

import pytest

from llmservice.kube.resources import Manifest
from llmservice.kube.undeclared import drop_field, undeclared_field

pytestmark = pytest.mark.unit

PREFIX = "failed to create typed patch object (default/t; kr.triton-llm.dev/v1, Kind=Thing): "


@pytest.mark.parametrize(
    ("path", "left"),
    [
        (".status.queue", {"conditions": [{"type": "Ready", "new": 1}]}),
        (".status.queue.depth", {"queue": {"age": 2}, "conditions": [{"type": "Ready", "new": 1}]}),
        ('.status.conditions[type="Ready"].new', {"queue": {"depth": 1, "age": 2}, "conditions": [{"type": "Ready"}]}),
        (".status.conditions[0].new", {"queue": {"depth": 1, "age": 2}, "conditions": [{"type": "Ready"}]}),
    ],
)
def test_the_named_field_goes(path: str, left: Manifest) -> None:
    manifest: Manifest = {"status": {"queue": {"depth": 1, "age": 2}, "conditions": [{"type": "Ready", "new": 1}]}}
    found = undeclared_field(f"{PREFIX}{path}: field not declared in schema")
    assert found == path
    assert drop_field(manifest, found)
    assert manifest["status"] == left


def test_another_refusal_names_no_field() -> None:
    assert undeclared_field("Operation cannot be fulfilled: the object has been modified") is None


def test_a_field_that_is_not_there_is_not_dropped() -> None:
    assert not drop_field({"status": {}}, ".status.queue.depth")
