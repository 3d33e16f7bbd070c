"""A client of the real API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from llmservice.kube.real import RealKube, connect


@pytest_asyncio.fixture
async def client(kubeconfig: Path) -> AsyncIterator[RealKube]:
    kube = await connect(Path(kubeconfig))
    yield kube
    await kube.close()
