"""Triton's entry into the paced engine: what every engine model does, around an engine that needs no weights."""

from __future__ import annotations

from typing import Any

import triton_python_backend_utils as pb_utils
from paced_engine import PacedEngine

from llmserving.control import answer_control
from llmserving.engine_metrics import EngineMetrics
from llmserving.engine_server import EngineServer
from llmserving.metrics import TritonMetrics
from llmserving.parameters import MeetingPlace, Parameters


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        parameters = Parameters.from_model_config(args["model_config"])
        engine = PacedEngine(
            parameters.integer("max_sequences", minimum=1),
            parameters.number("step_seconds", 0.008),
            parameters.number("sequence_seconds", 0.0005),
        )
        labels = {"model": args["model_name"], "version": args["model_version"]}
        self._exporter = TritonMetrics(pb_utils.MetricFamily, labels)
        slots = parameters.integer("slots", minimum=1)
        self._server = EngineServer(engine, MeetingPlace.of(parameters), slots, EngineMetrics(self._exporter))
        self._server.start()

    def execute(self, requests: list[Any]) -> list[Any]:
        return answer_control(pb_utils, requests, self._server)

    def finalize(self) -> None:
        self._server.stop()
        self._exporter.close()
