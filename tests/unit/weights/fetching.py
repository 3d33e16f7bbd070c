"""A model fetched from a hub of the tests' own into a cache."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from llmservice.weights.entry import Entry
from llmservice.weights.fetch import CachePolicy, Fetched, fetch
from llmservice.weights.hub import Hub
from llmservice.weights.progress import Progress
from tests.weights.hub_server import HubServer


@asynccontextmanager
async def client(
    hub: HubServer,
    revision: str = "main",
    token: str | None = None,
    file: str | None = None,
    folders: tuple[str, ...] = (),
) -> AsyncIterator[Hub]:
    opened = Hub.open("owner/model", revision, hub.url, token, file, folders)
    try:
        yield opened
    finally:
        await opened.close()


async def fetched(
    hub: HubServer,
    cache: Path,
    revision: str = "main",
    token: str | None = None,
    file: str | None = None,
    folders: tuple[str, ...] = (),
    **policy: object,
) -> Fetched:
    async with client(hub, revision, token, file, folders) as opened:
        asked = CachePolicy(**policy)  # type: ignore[arg-type]
        return await fetch(opened, cache, asked, Progress(io.StringIO()), pause_seconds=0.001)


def read(entry: Entry) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in entry.files.iterdir()}
