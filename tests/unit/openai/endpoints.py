"""An endpoint over a fake gate, in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from llmservice.openai.routes import Endpoint
from llmservice.openai.server import serving
from llmservice.openai.settings import EndpointSettings
from tests.openai_contract.registry import MODEL, Served
from tests.unit.grpc_server import serve
from tests.unit.openai.fake_gate import FakeGate


@dataclass(frozen=True)
class Running:
    """Both ends, and where they listen."""

    gate: FakeGate
    endpoint: Endpoint
    served: Served
    admin_url: str


@asynccontextmanager
async def running(gate: FakeGate | None = None, **settings: Any) -> AsyncIterator[Running]:
    """Starts both, with `settings` in the place of the usual ones."""
    gate = gate or FakeGate()

    async def idle() -> bool:
        return gate.running == 0

    async with serve(gate) as address:
        usual = EndpointSettings(address, MODEL, (MODEL,), port=0, admin_port=0)
        async with serving(replace(usual, **settings)) as endpoint:
            served = Served(f"http://127.0.0.1:{endpoint.port}", idle)
            yield Running(gate, endpoint, served, f"http://127.0.0.1:{endpoint.admin_port}")
