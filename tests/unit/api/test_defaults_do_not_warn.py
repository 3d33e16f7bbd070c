"""A warning is about what somebody wrote: no default of another field earns one."""

from __future__ import annotations

from typing import Any

import pytest

from llmservice.api.validation import validate
from tests.rule_cases import manifest

pytestmark = pytest.mark.unit

WRITTEN: list[dict[str, Any]] = [
    {},
    {"scaling": {"minReplicas": 5, "maxReplicas": 8}},
    {"replicas": 5},
    {"engine": {"backend": "vllm"}},
    {"placement": {"pool": "a100-80gb"}},
    *({"batching": {"mode": mode}} for mode in ("None", "Static", "Dynamic", "Continuous")),
]


@pytest.mark.parametrize("spec", WRITTEN, ids=str)
def test_a_field_that_was_left_out_is_not_warned_of(spec: dict[str, Any]) -> None:
    assert validate(manifest(spec)).warnings == ()
