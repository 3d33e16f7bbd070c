from __future__ import annotations

import pytest
import yaml

from llmservice.api.batching import BatchingMode
from llmservice.api.engine import Backend
from llmservice.api.service import LLMService
from llmservice.api.validation import validate
from tests.example_files import EXAMPLES, EXPECTED_WARNINGS

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("name", EXPECTED_WARNINGS)
def test_an_example_is_valid_and_warns_only_as_meant(name: str) -> None:
    findings = validate(yaml.safe_load((EXAMPLES / name).read_text()))
    assert findings.errors == ()
    assert {finding.code for finding in findings.warnings} == EXPECTED_WARNINGS[name]


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("*.yaml")} == set(EXPECTED_WARNINGS)


def test_there_is_an_example_for_every_backend_and_mode() -> None:
    services = [LLMService.parse(yaml.safe_load(path.read_text())) for path in EXAMPLES.glob("*.yaml")]
    assert {service.spec.engine.backend for service in services} == set(Backend)
    assert {service.spec.batching.mode for service in services} == set(BatchingMode)
    assert len({service.metadata.name for service in services}) == len(services)
