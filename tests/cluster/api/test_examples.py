"""Every example on a real API server: taken, nothing pruned, no warning that is not meant."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.cluster.api.conftest import Kubectl
from tests.example_files import EXAMPLES, EXPECTED_WARNINGS

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("name", EXPECTED_WARNINGS)
def test_an_example_is_stored_as_written(kubectl: Kubectl, name: str) -> None:
    path = EXAMPLES / name
    result = kubectl("apply", "-o", "json", "-f", str(path))
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("Warning:") == len(EXPECTED_WARNINGS[name]), result.stderr
    written = yaml.safe_load(path.read_text())
    assert holds(json.loads(result.stdout)["spec"], written["spec"])
    kubectl.must("delete", "llm", written["metadata"]["name"])


def holds(stored: Any, written: Any) -> bool:
    """Whether all that was written is stored; defaults may have joined it."""
    if isinstance(written, dict):
        return all(key in stored and holds(stored[key], value) for key, value in written.items())
    if isinstance(written, list):
        return len(stored) == len(written) and all(map(holds, stored, written))
    return bool(stored == written)
