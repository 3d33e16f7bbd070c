"""A hub with one small model."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.weights.hub_server import HubServer
from tests.weights.small_model import UNREAD, small_model


@pytest.fixture
async def hub() -> AsyncIterator[HubServer]:
    async with HubServer(small_model() | UNREAD).running() as server:
        yield server
