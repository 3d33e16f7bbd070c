"""The one client for control of a Triton server, over gRPC only.

A load call by HTTP holds a worker thread of the server, and the streams of that thread lose headers and ends
(measured on tritonserver 2.51: 60 of 800 broke).
"""

from __future__ import annotations

import json
from collections.abc import Awaitable
from typing import Any, Final, Self

import numpy as np
from tritonclient.grpc.aio import InferenceServerClient, InferInput  # type: ignore[import-untyped]
from tritonclient.utils import InferenceServerException  # type: ignore[import-untyped]

from llmservice.repository.engine_config import CONTROL_TENSOR
from llmservice.triton.errors import ErrorCode, TritonError
from llmservice.triton.results import ModelState, ModelStatistics
from llmservice.workload import names

TOKEN_HEADER: Final = f"triton-grpc-protocol-{names.TOKEN_HEADER}"
"""Triton puts `triton-grpc-protocol-` before the header that guards a restricted API."""

READ_SECONDS: Final = 5.0
LOAD_SECONDS: Final = 120.0
_UNKNOWN_MODEL: Final = "unknown model"


class TritonClient:
    """Calls to the Triton server at `address` (`host:port` of its gRPC endpoint), as an async context manager.

    `token` opens the restricted APIs. Each call raises TritonError, with DEADLINE_EXCEEDED when it takes longer than
    `read_seconds`, or for a load longer than `load_seconds`: then the load goes on inside Triton.
    """

    def __init__(
        self,
        address: str,
        token: str | None = None,
        *,
        read_seconds: float = READ_SECONDS,
        load_seconds: float = LOAD_SECONDS,
    ) -> None:
        self.address = address
        self._token = token
        self._headers = {TOKEN_HEADER: token} if token else None
        self._read_seconds = read_seconds
        self._load_seconds = load_seconds
        self._client = InferenceServerClient(address)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection."""
        await self._client.close()

    async def control(self, model: str, **asked: Any) -> dict[str, Any]:
        """Asks a running engine model for what its gates and instances share (docs/gate-and-engine.md), or sets it."""
        tensor = InferInput(CONTROL_TENSOR, [1], "BYTES")
        text = json.dumps({"token": self._token or "", **asked})
        tensor.set_data_from_numpy(np.array([text.encode()], dtype=np.object_))
        answer = await self._call(
            f"control of {model}",
            self._client.infer(model, [tensor], headers=self._headers, client_timeout=self._read_seconds),
        )
        told: dict[str, Any] = json.loads(answer.as_numpy(CONTROL_TENSOR).item())
        return told

    async def load(self, model: str, config_json: str | None = None) -> None:
        """Loads `model`, with `config_json` (the whole ModelConfig) in the place of its file where given.

        Returns when the model is ready. A model that serves keeps serving until then, and after a failure too.
        """
        await self._call(
            f"load model {model}",
            self._client.load_model(
                model, headers=self._headers, config=config_json, client_timeout=self._load_seconds
            ),
        )

    async def unload(self, model: str) -> None:
        """Asks Triton to unload `model` and returns at once; the repository index tells when it is gone."""
        await self._call(
            f"unload model {model}",
            self._client.unload_model(model, headers=self._headers, client_timeout=self._read_seconds),
        )

    async def model_config(self, model: str) -> Any:
        """The `ModelConfig` that `model` runs with: as submitted, plus what Triton fills in."""
        response = await self._call(
            f"configuration of {model}",
            self._client.get_model_config(model, headers=self._headers, client_timeout=self._read_seconds),
        )
        return response.config

    async def statistics(self, model: str) -> ModelStatistics:
        """Statistics of the newest version of `model`."""
        response = await self._call(
            f"statistics of {model}",
            self._client.get_inference_statistics(model, headers=self._headers, client_timeout=self._read_seconds),
        )
        if not response.model_stats:
            raise TritonError(ErrorCode.NOT_FOUND, "no version is loaded", f"statistics of {model} at {self.address}")
        return ModelStatistics.of(max(response.model_stats, key=lambda stats: int(stats.version)))

    async def ready(self, model: str) -> bool:
        """Whether `model` serves. A model that Triton does not know is not ready."""
        try:
            ready = await self._call(
                f"readiness of {model}",
                self._client.is_model_ready(model, headers=self._headers, client_timeout=self._read_seconds),
            )
        except TritonError as error:
            if _UNKNOWN_MODEL in error.message or error.code is ErrorCode.NOT_FOUND:
                return False
            raise
        return bool(ready)

    async def server_ready(self) -> bool:
        """Whether the server says that it is ready."""
        return bool(
            await self._call(
                "readiness",
                self._client.is_server_ready(headers=self._headers, client_timeout=self._read_seconds),
            )
        )

    async def server_version(self) -> str:
        """Triton's version, such as `2.51.0`."""
        response = await self._call(
            "server metadata",
            self._client.get_server_metadata(headers=self._headers, client_timeout=self._read_seconds),
        )
        return str(response.version)

    async def repository_index(self) -> tuple[ModelState, ...]:
        """Every model in the repository, with the state and reason of each version Triton ever loaded."""
        response = await self._call(
            "repository index",
            self._client.get_model_repository_index(headers=self._headers, client_timeout=self._read_seconds),
        )
        return tuple(ModelState(m.name, m.version, m.state, m.reason) for m in response.models)

    async def _call(self, what: str, answer: Awaitable[Any]) -> Any:
        """Triton's answer, its failures as TritonError."""
        try:
            return await answer
        except InferenceServerException as error:
            code = ErrorCode.parse(error.status())
            raise TritonError(code, error.message() or "no message", f"{what} at {self.address}") from error
