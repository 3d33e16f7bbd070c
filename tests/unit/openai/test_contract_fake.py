"""OpenAI's client before a fake gate: the same cases as before a real tritonserver."""

from __future__ import annotations

import pytest

from tests.openai_contract import ADAPTER, ADAPTER_CASES, CASES, MODEL, Case
from tests.unit.openai.endpoints import running

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_contract(case: Case) -> None:
    async with running() as found:
        await case(found.served)


@pytest.mark.parametrize("case", ADAPTER_CASES.values(), ids=ADAPTER_CASES)
async def test_contract_of_a_service_with_an_adapter(case: Case) -> None:
    async with running(adapters=(ADAPTER,)) as found:
        await case(found.served)


async def test_the_gate_is_asked_for_the_adapter_only_by_its_name() -> None:
    async with running(adapters=(ADAPTER,)) as found, found.served.client() as client:
        for model in (ADAPTER, MODEL):
            await client.completions.create(model=model, prompt=["Once", "Twice"], max_tokens=2)
    assert [asked.sampling.get("adapter") for asked in found.gate.asked] == [ADAPTER, ADAPTER, None, None]
