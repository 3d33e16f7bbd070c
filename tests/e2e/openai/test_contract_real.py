"""OpenAI's client before SmolLM2 on a real tritonserver: the same cases as before the fake gate."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from llmservice.local.tritonserver import TritonServer
from llmservice.openai.server import serving
from llmservice.openai.settings import EndpointSettings
from tests.openai_contract import CASES, MODEL, Case, Served

pytestmark = pytest.mark.e2e

AT_WORK = ("llm_gate_held_requests", "llm_gate_admitted_requests")


@pytest.fixture
async def served(server: TritonServer) -> AsyncIterator[Served]:
    async def idle() -> bool:
        async with aiohttp.ClientSession() as http, http.get(server.metrics_url) as page:
            families = text_string_to_metric_families(await page.text())
            return not any(sample.value for family in families for sample in family.samples if sample.name in AT_WORK)

    settings = EndpointSettings(server.grpc_address, MODEL, (MODEL,), port=0, admin_port=0)
    async with serving(settings) as endpoint:
        yield Served(f"http://127.0.0.1:{endpoint.port}", idle)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_contract(case: Case, served: Served) -> None:
    await case(served)
