"""OpenAI's client before a fake gate: the same cases as before a real tritonserver."""

from __future__ import annotations

import pytest

from tests.openai_contract import CASES, Case
from tests.unit.openai.endpoints import running

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_contract(case: Case) -> None:
    async with running() as found:
        await case(found.served)
