"""Triton's entry to the torch engine."""

from __future__ import annotations

from llmserving.engine import Engine
from llmserving.engine_model import EngineModel, Given
from llmtorch.engine import TorchEngine
from llmtorch.options import EngineOptions


class TritonPythonModel(EngineModel):
    """One instance of the torch engine."""

    def open_engine(self, given: Given) -> Engine:
        """See `EngineModel`."""
        return TorchEngine(EngineOptions.from_parameters(given.parameters, device=given.device))
