"""Requests to the API server: limited in number, bounded in time, tried again when that helps, counted."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp

from llmservice.kube.clock import Clock, SystemClock, sleep
from llmservice.kube.connection import Connection
from llmservice.kube.errors import KubeError, Unavailable, from_status
from llmservice.kube.resources import LEASE, Resource
from llmservice.kube.retries import RetryPolicy

_UNAUTHORIZED: Final = 401
_FAILED: Final = 400


@dataclass(frozen=True)
class Request:
    """One request. `verb` is the client's method; `repeatable`: a second run of it does no harm."""

    verb: str
    method: str
    path: str
    resource: Resource | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    content_type: str = "application/json"
    repeatable: bool = True

    @property
    def target(self) -> str:
        """Path and query, without empty parameters."""
        query = urlencode({name: value for name, value in self.query.items() if value})
        return f"{self.path}?{query}" if query else self.path


@dataclass(frozen=True)
class Answered:
    """One attempt, for metrics: `status` is 0 when no answer came."""

    verb: str
    resource: str
    status: int
    seconds: float


class Requests:
    """Sends requests over one connection.

    `concurrency` bounds the requests under way, those for Leases apart; `timeout` (seconds) bounds each attempt.
    `on_answer` is told every attempt.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        concurrency: int = 16,
        timeout: float = 30.0,
        retries: RetryPolicy | None = None,
        clock: Clock | None = None,
        on_answer: Callable[[Answered], None] = lambda _: None,
    ) -> None:
        self._connection = connection
        self._under_way = asyncio.Semaphore(concurrency)
        self._timeout = aiohttp.ClientTimeout(total=timeout, connect=min(10.0, timeout))
        self._retries = retries or RetryPolicy()
        self._clock = clock or SystemClock()
        self._on_answer = on_answer

    async def send(self, request: Request) -> bytes:
        """The body of the answer. Raises KubeError when the last attempt allowed by the policy failed."""
        started = self._clock.monotonic()
        attempt, reloaded = 0, False
        while True:
            attempt += 1
            try:
                return await self._attempt(request)
            except KubeError as error:
                if error.status == _UNAUTHORIZED and not reloaded:
                    reloaded = True
                    await self._connection.reload()
                    continue
                pause = self._retries.pause(
                    error,
                    attempt=attempt,
                    elapsed=self._clock.monotonic() - started,
                    repeatable=request.repeatable,
                )
                if pause is None:
                    raise
            await sleep(self._clock, pause)

    async def close(self) -> None:
        """Close the connections."""
        await self._connection.close()

    async def _attempt(self, request: Request) -> bytes:
        # Leadership must not be lost because slow requests hold every place.
        place = contextlib.nullcontext() if request.resource == LEASE else self._under_way
        async with place:
            started = self._clock.monotonic()
            status = 0
            try:
                status, data, retry_after = await self._exchange(request)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise _unreachable(request, error) from error
            finally:
                plural = request.resource.plural if request.resource else ""
                self._on_answer(Answered(request.verb, plural, status, self._clock.monotonic() - started))
        if status >= _FAILED:
            raise _refused(status, data, retry_after)
        return data

    async def _exchange(self, request: Request) -> tuple[int, bytes, str | None]:
        connection = self._connection
        response: Any = await connection.api.call_api(
            request.method,
            connection.api.configuration.host + request.target,
            header_params={**await connection.headers(), "Content-Type": request.content_type},
            body=request.body,
            _request_timeout=self._timeout,
        )
        data: bytes = await response.read()
        return response.status, data, response.headers.get("Retry-After")


def _refused(status: int, data: bytes, retry_after: str | None) -> KubeError:
    text = data.decode(errors="replace").strip()
    try:
        body = json.loads(text)
    except ValueError:
        body = None
    if not isinstance(body, dict) or body.get("kind") != "Status":
        body = {}
    seconds = float(retry_after) if retry_after and retry_after.isdigit() else None
    return from_status(status, body, text=text, retry_after=seconds)


def _unreachable(request: Request, error: Exception) -> Unavailable:
    """No answer: a certificate or a refused connection means that the request never got there."""
    never_sent = isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError | ssl.SSLError)
    what = str(error) or "no answer in time"
    message = f"{request.method} {request.path}: {what}"
    return Unavailable(message, reason=type(error).__name__, may_have_happened=not never_sent)
