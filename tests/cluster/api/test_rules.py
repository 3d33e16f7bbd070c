"""Every rule on a real API server: it accepts what it allows, rejects what it forbids, and says what to write."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bad_inputs import BAD_INPUTS, BadInput
from tests.cluster.api.conftest import Refusal
from tests.rule_cases import RULE_CASES, RuleCase, manifest

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("case", RULE_CASES, ids=lambda case: case.code)
def test_the_api_server_accepts_what_a_rule_allows(refusal: Refusal, case: RuleCase) -> None:
    assert refusal(manifest(case.accept, case.accept_name)) == ""


@pytest.mark.parametrize("case", RULE_CASES, ids=lambda case: case.code)
def test_the_api_server_rejects_what_a_rule_forbids(refusal: Refusal, case: RuleCase) -> None:
    said = refusal(manifest(case.reject, case.reject_name))
    assert case.says.lower() in said.lower()
    assert "evaluating rule" not in said, "a rule failed to evaluate instead of judging"


@pytest.mark.parametrize("bad", BAD_INPUTS.values(), ids=BAD_INPUTS)
def test_the_api_server_names_a_mistake(refusal: Refusal, bad: BadInput) -> None:
    assert bad.expected_of_server.lower() in refusal(manifest(bad.change)).lower()


@pytest.mark.parametrize("change", [{"replicas": None}, {"batching": {"maxQueueDelay": None}}, {"engine": None}])
def test_the_api_server_reads_null_as_left_out(refusal: Refusal, change: dict[str, Any]) -> None:
    assert refusal(manifest(change)) == ""
