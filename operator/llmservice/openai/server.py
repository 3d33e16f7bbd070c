"""The endpoint's process: two ports, files that change under it, and an end that leaves no answer half told."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from llmservice.openai.keys import ApiKeys
from llmservice.openai.routes import Endpoint
from llmservice.openai.settings import EndpointSettings
from llmservice.openai.tls import Certificate
from llmservice.openai.triton_backend import TritonBackend

RELOAD_SECONDS: Final = 5.0
"""How often mounted Secrets are looked at; the kubelet itself takes up to a minute to bring a change."""
CLOSE_SECONDS: Final = 2.0
log = logging.getLogger(__name__)


@asynccontextmanager
async def serving(settings: EndpointSettings) -> AsyncIterator[Endpoint]:
    """Serves until left. Raises OSError for a port that is taken or a certificate that cannot be read."""
    keys = ApiKeys(settings.api_keys) if settings.api_keys else None
    certificate = Certificate(settings.tls) if settings.tls else None
    async with contextlib.AsyncExitStack() as stack:
        backend = await stack.enter_async_context(TritonBackend(settings.triton, settings.model))
        endpoint = Endpoint(
            backend,
            settings.names,
            settings.request_seconds,
            settings.max_request_bytes,
            keys,
            adapters=settings.adapters,
        )
        tls = certificate.context if certificate else None
        endpoint.port = await _listen(stack, endpoint.application(), settings.host, settings.port, tls)
        endpoint.admin_port = await _listen(stack, admin(endpoint), settings.host, settings.admin_port, None)
        following = asyncio.create_task(_follow(keys, certificate))
        stack.callback(following.cancel)
        yield endpoint


async def _listen(
    stack: contextlib.AsyncExitStack, app: web.Application, host: str, port: int, tls: ssl.SSLContext | None
) -> int:
    """Serves `app` until `stack` is left; the port, which is a free one where 0 was asked for."""
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=CLOSE_SECONDS)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    await web.TCPSite(runner, host, port, ssl_context=tls).start()
    return int(runner.addresses[0][1])


async def drain(endpoint: Endpoint, seconds: float) -> bool:
    """Takes nothing new and waits for what is being answered: whether all of it was, within `seconds`."""
    endpoint.draining = True
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(endpoint.idle.wait(), seconds)
    return endpoint.idle.is_set()


def admin(endpoint: Endpoint) -> web.Application:
    """Health and metrics, for the kubelet and Prometheus.

    Ready says that requests may come, not that Triton is up: that is for Triton's own probe to say.
    """

    async def healthz(_: web.Request) -> web.Response:
        return web.json_response({"alive": True})

    async def readyz(_: web.Request) -> web.Response:
        body = {"ready": not endpoint.draining, "inFlight": endpoint.in_flight}
        return web.json_response(body, status=503 if endpoint.draining else 200)

    async def metrics(_: web.Request) -> web.Response:
        page = generate_latest(endpoint.metrics.registry)
        return web.Response(body=page, headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", metrics)])
    return app


async def run(settings: EndpointSettings) -> None:
    """Serves until SIGTERM or SIGINT, then drains: in a pod Triton gets the same signal and as much time."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with serving(settings) as endpoint:
        scheme = "https" if settings.tls else "http"
        log.info(
            "serving %s on %s://%s:%d",
            ", ".join(settings.names + settings.adapters),
            scheme,
            settings.host,
            settings.port,
        )
        await stop.wait()
        log.info("stopping: %d requests are being answered", endpoint.in_flight)
        whole = await drain(endpoint, settings.drain_seconds)
        log.info("stopped %s", "after all answers" if whole else "before all answers were whole")


async def _follow(keys: ApiKeys | None, certificate: Certificate | None) -> None:
    while keys or certificate:
        await asyncio.sleep(RELOAD_SECONDS)
        if keys and keys.reload():
            log.info("API keys changed")
        if certificate and certificate.reload():
            log.info("certificate renewed")
