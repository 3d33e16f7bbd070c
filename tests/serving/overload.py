"""An open-loop load beyond what the engine can do, and beside it a few requests of the highest level, timed to their
first token."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
import numpy as np
import tritonclient.grpc.aio as grpcclient  # type: ignore[import-untyped]
from tritonclient.utils import InferenceServerException  # type: ignore[import-untyped]

from tests.serving.paced_service import NAME, PacedService

HIGHEST: Final[Mapping[str, Any]] = {"priority_level": 1}


@dataclass
class Overload:
    """What became of both loads."""

    first_tokens: list[float] = field(default_factory=list)
    """Seconds to the first token of each request of the highest level."""
    high_failed: int = 0
    low_done: int = 0
    low_refused: int = 0
    seconds: float = 0.0
    errors: set[str] = field(default_factory=set)


async def overload(
    service: PacedService,
    seconds: float,
    low_per_second: float,
    high_per_second: float,
    max_tokens: int = 64,
    high: Mapping[str, Any] = HIGHEST,
    seed: int = 1,
) -> Overload:
    """Poisson arrivals of both kinds for `seconds`; requests of the default level answer whole."""
    result = Overload()
    rng = random.Random(seed)
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
        grpcclient.InferenceServerClient(service.server.grpc_address) as client,
        asyncio.TaskGroup() as group,
    ):
        await _stream(client, 1, high, Overload())  # connects: that takes longer than a first token
        started = time.perf_counter()

        async def arrivals(rate: float) -> AsyncIterator[None]:
            due = started
            while rate and (due := due + rng.expovariate(rate)) < started + seconds:
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                yield

        async def send_low() -> None:
            async for _ in arrivals(low_per_second):
                group.create_task(_answer(session, service, max_tokens, result))

        async def send_high() -> None:
            async for _ in arrivals(high_per_second):
                group.create_task(_stream(client, max_tokens, high, result))

        group.create_task(send_low())
        group.create_task(send_high())
    result.seconds = time.perf_counter() - started
    return result


async def _answer(session: aiohttp.ClientSession, service: PacedService, max_tokens: int, result: Overload) -> None:
    body = {"text_input": "hello", "max_tokens": max_tokens}
    async with session.post(f"{service.server.http_url}/v2/models/{NAME}/generate", json=body) as response:
        if response.status == 200:
            result.low_done += 1
        else:
            result.low_refused += 1
            result.errors.add(f"HTTP {response.status}: {await response.text()}")


async def _stream(client: Any, max_tokens: int, level: Mapping[str, Any], result: Overload) -> None:
    started = time.perf_counter()
    try:
        async for response, error in client.stream_infer(_one(max_tokens, level)):
            if error is not None:
                raise error
            if response.get_response().outputs:
                result.first_tokens.append(time.perf_counter() - started)
                break
    except InferenceServerException as error:
        result.high_failed += 1
        result.errors.add(str(error))


async def _one(max_tokens: int, level: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
    inputs = [grpcclient.InferInput("text_input", [1, 1], "BYTES"), grpcclient.InferInput("stream", [1, 1], "BOOL")]
    inputs[0].set_data_from_numpy(np.array([[b"hello"]], dtype=np.object_))
    inputs[1].set_data_from_numpy(np.array([[True]]))
    given = dict(level)
    yield {
        "model_name": NAME,
        "inputs": inputs,
        "priority": given.pop("priority", 0),
        "parameters": {"max_tokens": max_tokens, **given},
        "enable_empty_final_response": True,
    }
