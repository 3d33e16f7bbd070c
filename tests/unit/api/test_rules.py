from __future__ import annotations

import pytest

from llmservice.api.reference import rules
from llmservice.api.triton_rules import TRITON_RULES
from llmservice.api.validation import validate
from tests.rule_cases import RULE_CASES, RuleCase, manifest

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("case", RULE_CASES, ids=lambda case: case.code)
def test_a_rule_accepts_what_it_allows(case: RuleCase) -> None:
    assert validate(manifest(case.accept, case.accept_name)).errors == ()


@pytest.mark.parametrize("case", RULE_CASES, ids=lambda case: case.code)
def test_a_rule_rejects_what_it_forbids_and_says_what_to_write(case: RuleCase) -> None:
    errors = validate(manifest(case.reject, case.reject_name)).errors
    mine = [finding for finding in errors if finding.code == case.code]
    assert len(mine) == 1, errors
    assert case.says.lower() in mine[0].text.lower()
    assert mine[0].remedy
    assert mine[0].field_path or case.code in {"V1-name", "own-name-length"}


def test_every_rule_has_a_case_and_every_case_a_rule() -> None:
    assert {code for code, _, _ in rules()} == {case.code for case in RULE_CASES}
    assert len({case.code for case in RULE_CASES}) == len(RULE_CASES)


def test_every_rule_of_triton_is_held_somewhere() -> None:
    assert list(TRITON_RULES) == [f"V{number}" for number in range(1, 26)]
    ours = {code for code, _, _ in rules()}
    for number, held in TRITON_RULES.items():
        assert set(held.codes) <= ours
        assert held.codes or held.by != "CEL", number
    mirrored = {code for code in ours if code.startswith("V")}
    assert mirrored == {code for held in TRITON_RULES.values() for code in held.codes}
