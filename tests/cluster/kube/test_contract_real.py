"""A real API server keeps the same contract as the fake."""

from __future__ import annotations

import pytest

from llmservice.kube.real import RealKube
from tests.kube_contract import CASES, Case

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_contract(case: Case, client: RealKube, namespace: str) -> None:
    await case(client, namespace)
