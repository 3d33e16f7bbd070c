"""The OpenAI endpoint of a service on this host, in the process of the session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from llmservice.local.intent import Intent
from llmservice.local.replica import Ports
from llmservice.openai.routes import Endpoint
from llmservice.openai.server import serving
from llmservice.openai.settings import EndpointSettings
from llmservice.repository.layout import gate_name
from llmservice.workload.openai import adapter_names, served_names

ADDRESS: Final = "127.0.0.1"


@asynccontextmanager
async def local_endpoint(intent: Intent, ports: Ports) -> AsyncIterator[Endpoint | None]:
    """Serves what `intent` asks for until left; None where the endpoint is turned off.

    Without keys and TLS: their Secrets are in a cluster, and only this host can reach it. Raises OSError for a port
    that was taken meanwhile.
    """
    asked = intent.service.spec.service.openai
    if not asked.enabled:
        yield None
        return
    settings = EndpointSettings(
        triton=f"{ADDRESS}:{ports.grpc}",
        model=gate_name(intent.service.metadata.name),
        names=served_names(intent.service),
        adapters=adapter_names(intent.service),
        host=ADDRESS,
        port=ports.openai,
        admin_port=ports.openai_admin,
        max_request_bytes=asked.max_request_bytes,
        request_seconds=asked.request_timeout.total_seconds(),
    )
    async with serving(settings) as endpoint:
        yield endpoint
