"""Triton's entry to the vLLM driver."""

from __future__ import annotations

import os
from typing import Any

from llmserving.engine import Engine
from llmserving.engine_model import EngineModel, Given
from llmserving.engine_server import EngineServer
from llmvllm.environment import prepare
from llmvllm.options import EngineOptions


class TritonPythonModel(EngineModel):
    """One instance of vLLM."""

    def open_engine(self, given: Given) -> Engine:
        """See `EngineModel`."""
        options = EngineOptions.from_parameters(given.parameters, device=given.device)
        prepare(options, os.environ)
        from llmvllm.start import start_engine  # imports vLLM

        return start_engine(options, given.metrics, given.exporter)

    def connect(self, engine: Any, server: EngineServer) -> None:
        """The server is woken by the loop that vLLM lives in, when tokens came."""
        engine.wake_by(server.wake)
