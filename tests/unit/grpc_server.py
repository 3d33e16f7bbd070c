"""A server of Triton's gRPC protocol in this process, for the fakes of tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc  # type: ignore[import-untyped]
from tritonclient.grpc import service_pb2_grpc  # type: ignore[import-untyped]


@asynccontextmanager
async def serve(servicer: Any) -> AsyncIterator[str]:
    """Serves a `GRPCInferenceServiceServicer`; gives its address."""
    server = grpc.aio.server()
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)
