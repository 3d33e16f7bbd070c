"""Answers from the gate over Triton's gRPC protocol, one stream a request: cancelling the stream ends the request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final, Self

import grpc  # type: ignore[import-untyped]
from tritonclient.grpc import service_pb2, service_pb2_grpc  # type: ignore[import-untyped]

from llmservice.openai.errors import ApiError, of_triton
from llmservice.openai.generation import Generation, Part
from llmservice.openai.tensors import decode, encode

READY_SECONDS: Final = 2.0
_OPTIONS: Final = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # Triton's container may start again inside its pod, and its first look counts.
    ("grpc.initial_reconnect_backoff_ms", 100),
    # Despite its name how long connecting may take: a server whose cores are all computing needs more than a moment.
    ("grpc.min_reconnect_backoff_ms", 5000),
    ("grpc.max_reconnect_backoff_ms", 1000),
)


class TritonBackend:
    """The gate `model` of the Triton at `address` (`host:port` of its gRPC endpoint), as an async context manager."""

    def __init__(self, address: str, model: str) -> None:
        self._model = model
        self._channel = grpc.aio.insecure_channel(address, options=_OPTIONS)
        self._stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._channel.close(grace=None)

    async def generate(self, generation: Generation) -> AsyncIterator[Part]:
        """See `Backend`."""
        call = self._stub.ModelStreamInfer(_only(encode(self._model, generation)))
        refusal: ApiError | None = None
        try:
            # To its end also after an error: Triton does not take it well when a stream that ends is cancelled.
            async for answer in call:
                if answer.error_message:
                    refusal = refusal or of_triton("", answer.error_message)
                    continue
                for part in decode(answer.infer_response):
                    yield part
        except grpc.aio.AioRpcError as error:
            raise of_triton(error.code().name, error.details() or "") from error
        finally:
            if not call.done():
                call.cancel()
        if refusal is not None:
            raise refusal

    async def ready(self) -> bool:
        """See `Backend`."""
        try:
            request = service_pb2.ModelReadyRequest(name=self._model)
            return bool((await self._stub.ModelReady(request, timeout=READY_SECONDS)).ready)
        except grpc.aio.AioRpcError:
            return False


async def _only(request: Any) -> AsyncIterator[Any]:
    yield request
