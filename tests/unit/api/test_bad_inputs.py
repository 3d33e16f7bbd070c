from __future__ import annotations

import pytest

from llmservice.api.validation import validate
from tests.bad_inputs import BAD_INPUTS, BadInput
from tests.rule_cases import manifest

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("bad", BAD_INPUTS.values(), ids=BAD_INPUTS)
def test_a_mistake_is_named_with_its_place_and_the_remedy(bad: BadInput) -> None:
    findings = validate(manifest(bad.change))
    told = [finding for finding in findings.errors if finding.field_path == bad.field_path]
    assert len(told) == 1, findings.errors
    assert bad.says.lower() in told[0].text.lower()
    assert told[0].remedy


def test_a_wrong_kind_and_a_wrong_group_are_named() -> None:
    wrong = manifest({}) | {"apiVersion": "triton.dev/v1", "kind": "LLM"}
    assert {finding.field_path for finding in validate(wrong).errors} == {"apiVersion", "kind"}


def test_a_misspelt_root_field_is_named() -> None:
    wrong = manifest({}) | {"specs": {}}
    assert [str(finding) for finding in validate(wrong).errors] == ["specs: unknown field specs. Did you mean spec?"]


def test_an_object_without_a_spec_is_told_so() -> None:
    wrong = {key: value for key, value in manifest({}).items() if key != "spec"}
    assert [finding.code for finding in validate(wrong).errors] == ["schema-required"]


@pytest.mark.parametrize("junk", [{}, {"spec": 3, "metadata": []}, {"metadata": {"name": 5}, "spec": {"model": "x"}}])
def test_any_object_gets_findings_and_never_an_exception(junk: dict[str, object]) -> None:
    assert validate(junk).errors


def test_null_counts_as_left_out() -> None:
    change = {"replicas": None, "batching": {"maxQueueDelay": None, "queue": {"levels": None}}, "engine": None}
    document = manifest(change)
    document["metadata"] |= {"namespace": None, "creationTimestamp": None}
    findings = validate(document)
    assert (findings.errors, findings.warnings) == ((), ())
