"""`kubectl apply` shows each warning, and takes the object all the same."""

from __future__ import annotations

import pytest

from llmservice.api.validation import validate
from tests.cluster.api.conftest import Kubectl
from tests.rule_cases import manifest
from tests.warning_cases import WARNING_CASES

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("code", WARNING_CASES)
def test_kubectl_apply_shows_the_warning(policy: Kubectl, code: str) -> None:
    document = manifest(WARNING_CASES[code])
    result = policy.dry_run(document)
    assert result.returncode == 0, result.stderr
    expected = validate(document).warnings
    assert code in {finding.code for finding in expected}
    assert result.stderr.count("Warning:") == len(expected), result.stderr
    for finding in expected:
        assert f"{finding.field_path}: {finding.message.rstrip('.')}" in result.stderr


def test_kubectl_apply_of_a_plain_service_shows_none(policy: Kubectl) -> None:
    result = policy.dry_run(manifest({}))
    assert (result.returncode, result.stderr) == (0, "")
