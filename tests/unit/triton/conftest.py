"""A Triton in memory, and a client that may control it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from llmservice.triton.client import TritonClient
from tests.unit.grpc_server import serve
from tests.unit.triton.fake_triton import TOKEN, FakeTriton


@pytest.fixture
def triton() -> FakeTriton:
    return FakeTriton()


@pytest.fixture
async def address(triton: FakeTriton) -> AsyncIterator[str]:
    async with serve(triton) as address:
        yield address


@pytest.fixture
async def client(address: str) -> AsyncIterator[TritonClient]:
    async with TritonClient(address, TOKEN) as client:
        yield client
