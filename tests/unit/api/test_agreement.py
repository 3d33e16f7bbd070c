from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings

from llmservice.api.service import LLMService
from llmservice.api.validation import validate
from tests.mutations import nearly_right_manifests

pytestmark = pytest.mark.unit


@settings(derandomize=True)
@given(nearly_right_manifests())
def test_what_validation_accepts_can_be_served(document: dict[str, Any]) -> None:
    before = json.dumps(document)
    findings = validate(document)
    assert json.dumps(document) == before, "validation changed what it was given"
    if findings.valid:
        LLMService.parse(document)
    for finding in findings.errors:
        assert "could not be checked" not in finding.message
