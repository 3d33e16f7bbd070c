from __future__ import annotations

import pytest

from llmservice.api.admission import admission_policy
from llmservice.api.validation import validate
from llmservice.api.warnings import WARNINGS
from tests.rule_cases import manifest
from tests.warning_cases import WARNING_CASES

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("code", WARNING_CASES)
def test_a_warning_shows_where_it_applies_and_the_spec_stays_valid(code: str) -> None:
    findings = validate(manifest(WARNING_CASES[code]))
    assert findings.errors == ()
    shown = [finding for finding in findings.warnings if finding.code == code]
    assert len(shown) == 1
    assert shown[0].remedy
    assert shown[0].field_path.startswith("spec.")


def test_a_plain_spec_has_no_warning() -> None:
    assert validate(manifest({})).warnings == ()


def test_every_warning_has_a_case_and_a_line_of_the_policy() -> None:
    assert [rule.code for rule in WARNINGS] == list(WARNING_CASES)
    assert len(admission_policy()["spec"]["validations"]) == len(WARNINGS)
