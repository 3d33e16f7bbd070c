"""One accept and one reject case for every rule of the CRD, used here (Python) and there (a real API server)."""

from __future__ import annotations

from typing import Final

from tests.rule_case import DEFAULT_NAME, RuleCase, manifest, merged
from tests.rule_cases_of_batching import BATCHING_CASES, TRITON_CASES
from tests.rule_cases_of_engines import ENGINE_CASES, MODEL_CASES, NODE_CASES
from tests.rule_cases_of_operations import OPERATION_CASES, TEMPLATE_CASES

__all__ = ["DEFAULT_NAME", "RULE_CASES", "RuleCase", "manifest", "merged"]

RULE_CASES: Final = (
    *TRITON_CASES,
    *BATCHING_CASES,
    *ENGINE_CASES,
    *NODE_CASES,
    *MODEL_CASES,
    *OPERATION_CASES,
    *TEMPLATE_CASES,
)
