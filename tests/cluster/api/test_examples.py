"""Every example applied to a real API server: taken, nothing pruned, no warning that is not meant."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.cluster.api.conftest import Kubectl
from tests.example_files import EXAMPLES, EXPECTED_WARNINGS

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("name", EXPECTED_WARNINGS)
def test_an_example_is_taken_as_written(policy: Kubectl, name: str) -> None:
    path = EXAMPLES / name
    result = policy("apply", "-o", "json", "-f", str(path))
    assert result.returncode == 0, result.stderr
    policy.must("delete", "--wait=false", "-f", str(path))
    assert result.stderr.count("Warning:") == len(EXPECTED_WARNINGS[name]), result.stderr
    written = yaml.safe_load(path.read_text())
    assert holds(json.loads(result.stdout)["spec"], written["spec"])


def holds(stored: Any, written: Any) -> bool:
    """Whether all that was written is stored; defaults may have joined it."""
    if isinstance(written, dict):
        return all(key in stored and holds(stored[key], value) for key, value in written.items())
    if isinstance(written, list):
        return len(stored) == len(written) and all(map(holds, stored, written))
    return bool(stored == written)
