"""The Job that builds an engine, judged by a real API server and not stored."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.workload.builds import FAMILIES, job

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize(("spec", "family"), FAMILIES.values(), ids=FAMILIES)
def test_the_api_server_takes_the_job(
    kubectl: Callable[..., str], namespace: str, spec: dict[str, Any], family: str
) -> None:
    built = job(spec, family)
    built["metadata"]["namespace"] = namespace
    arguments = ("apply", "--server-side", "--dry-run=server", "-o", "json", "-f", "-")
    stored = json.loads(kubectl(*arguments, text=json.dumps(built)))
    container = stored["spec"]["template"]["spec"]["containers"][0]
    assert container["command"] == built["spec"]["template"]["spec"]["containers"][0]["command"]
