"""Closed-loop clients that stream over HTTP and check every token that comes."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import aiohttp

from tests.serving.paced_service import NAME


@dataclass
class Load:
    """What became of the requests. A token is right when it is the next one the paced engine gives."""

    requests: int = 0
    failed: int = 0
    shortened: int = 0
    disordered: int = 0
    tokens: int = 0
    seconds: float = 0.0
    first_tokens: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds

    @property
    def whole(self) -> bool:
        """Whether every request got every token in order."""
        return not (self.failed or self.shortened or self.disordered)

    def merged(self, other: Self) -> None:
        """Takes the counts of `other` in, but not its time."""
        self.requests += other.requests
        self.failed += other.failed
        self.shortened += other.shortened
        self.disordered += other.disordered
        self.tokens += other.tokens
        self.first_tokens += other.first_tokens
        self.errors += other.errors


async def stream_one(
    session: aiohttp.ClientSession, url: str, max_tokens: int, load: Load, prompt: str = "hello"
) -> None:
    """One streamed request; counts it in `load`."""
    body: dict[str, Any] = {"text_input": prompt, "stream": True, "max_tokens": max_tokens, "temperature": 0}
    load.requests += 1
    started = time.perf_counter()
    received = 0
    try:
        async with session.post(f"{url}/v2/models/{NAME}/generate_stream", json=body) as response:
            if response.status != 200:
                raise RuntimeError(f"HTTP {response.status}: {await response.text()}")
            async for line in response.content:
                if not line.startswith(b"data:"):
                    continue
                event = json.loads(line[5:])
                if "error" in event:
                    raise RuntimeError(event["error"])
                if received == 0:
                    load.first_tokens.append(time.perf_counter() - started)
                load.disordered += event["text_output"] != f"t{received} "
                received += 1
    except (RuntimeError, aiohttp.ClientError, TimeoutError) as error:
        load.failed += 1
        load.errors.append(f"{type(error).__name__}: {error}")
    else:
        load.shortened += received != max_tokens
    load.tokens += received


async def stream_many(
    url: str,
    streams: int,
    requests: int,
    max_tokens: int,
    until: Callable[[], bool] | None = None,
    request_timeout: float = 120,
) -> Load:
    """`streams` clients at once, each sending its next request when the last ended: `requests` in all.

    With `until`, clients go on beyond `requests` until it says True.
    """
    load = Load()
    numbers = itertools.count()
    timeout = aiohttp.ClientTimeout(total=request_timeout)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:

        async def client() -> None:
            while next(numbers) < requests or (until is not None and not until()):
                await stream_one(session, url, max_tokens, load)

        started = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(streams):
                group.create_task(client())
        load.seconds = time.perf_counter() - started
    return load
