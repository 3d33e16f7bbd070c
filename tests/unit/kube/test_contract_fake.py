"""The fake keeps the contract of every client."""

from __future__ import annotations

import pytest

from llmservice.kube import resources
from llmservice.kube.fake import FakeKube
from tests.kube_contract import CASES, Case

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_contract(case: Case) -> None:
    client = FakeKube(namespaces=["chat"])
    client.unserved.add(resources.SCALED_OBJECT)
    await case(client, "chat")
