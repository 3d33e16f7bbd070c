"""Closed-loop clients that stream over HTTP and check every token that comes."""

from __future__ import annotations

import asyncio
import itertools
import json
import queue
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import aiohttp
import numpy as np
import tritonclient.grpc as grpcclient  # type: ignore[import-untyped]

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


def post(url: str, path: str, body: dict[str, Any], model: str = NAME) -> tuple[int, dict[str, Any]]:
    """Status and JSON of one request to the gate's `path`, such as `generate`."""
    request = urllib.request.Request(f"{url}/v2/models/{model}/{path}", json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


class GrpcStream:
    """One streamed request over gRPC, as a context manager; leaving it cancels the request."""

    def __init__(self, address: str, max_tokens: int, prompt: str = "hello", **parameters: Any) -> None:
        self.responses: queue.Queue[tuple[Any, Any]] = queue.Queue()
        self._client = grpcclient.InferenceServerClient(address)
        inputs = [grpcclient.InferInput("text_input", [1, 1], "BYTES"), grpcclient.InferInput("stream", [1, 1], "BOOL")]
        inputs[0].set_data_from_numpy(np.array([[prompt.encode()]], dtype=np.object_))
        inputs[1].set_data_from_numpy(np.array([[True]]))
        self._client.start_stream(callback=lambda result, error: self.responses.put((result, error)))
        self._client.async_stream_infer(NAME, inputs, parameters={"max_tokens": max_tokens, **parameters})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.cancel()
        self._client.close()

    def text(self, timeout: float = 60) -> str:
        """The text of the next response; raises the error that came in its place."""
        result, error = self.responses.get(timeout=timeout)
        if error is not None:
            raise error
        return str(result.as_numpy("text_output").item().decode())

    def cancel(self) -> None:
        """Cancels what is still running."""
        self._client.stop_stream(cancel_requests=True)
