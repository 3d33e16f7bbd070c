"""Requests to a service that `llmservice run` serves, and what its metrics page says."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.local.running import Run

SECONDS = 120.0


async def stream(run: Run, name: str, **body: Any) -> AsyncIterator[dict[str, Any]]:
    """The events of one request to the service `name`, greedy unless it says else; an error is an event too."""
    url = f"http://127.0.0.1:{run.http_port()}/v2/models/{name}/generate_stream"
    body = {"stream": True, "temperature": 0, **body}
    timeout = aiohttp.ClientTimeout(total=SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session, session.post(url, json=body) as response:
        async for line in response.content:
            if line.startswith(b"data:"):
                yield json.loads(line[5:])


async def answer(run: Run, name: str, **body: Any) -> list[dict[str, Any]]:
    """All events of one request."""
    return [event async for event in stream(run, name, **body)]


def text(events: list[dict[str, Any]], index: int = 0) -> str:
    """The text of one answer."""
    return "".join(event["text_output"] for event in events if event.get("index", 0) == index)


async def series(run: Run) -> dict[str, float]:
    """The engine's and the gate's series, summed over their labels."""
    address = run.said().partition("curl -s http://127.0.0.1:")[2].partition("/metrics")[0]
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{address}/metrics") as response:
        page = await response.text()
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found
