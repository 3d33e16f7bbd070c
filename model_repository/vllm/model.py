"""Triton's entry to the vLLM driver: opens vLLM for the gates of its service. No client sends requests here."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import triton_python_backend_utils as pb_utils

from llmserving.control import answer_control
from llmserving.engine_metrics import EngineMetrics
from llmserving.engine_server import EngineServer
from llmserving.metrics import TritonMetrics
from llmserving.parameters import MeetingPlace, Parameters
from llmvllm.environment import prepare
from llmvllm.options import EngineOptions


class TritonPythonModel:
    """One instance of vLLM, driven by a process of its own."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Loads the weights; what goes wrong is Triton's load error, in words."""
        parameters = Parameters.from_model_config(args["model_config"])
        options = EngineOptions.from_parameters(parameters, device=_device(args))
        slots = parameters.integer("slots", minimum=1)
        labels = {"model": args["model_name"], "version": args["model_version"]}
        self._exporter = TritonMetrics(pb_utils.MetricFamily, labels)
        metrics = EngineMetrics(self._exporter)
        prepare(options, os.environ)
        from llmvllm.start import start_engine  # imports vLLM

        engine = start_engine(options, metrics, self._exporter)
        self._server = EngineServer(engine, MeetingPlace.of(parameters), slots, metrics)
        engine.wake_by(self._server.wake)
        self._server.start()

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Answers what is asked of a running engine; requests for tokens come from the gate."""
        return answer_control(pb_utils, requests, self._server)

    def finalize(self) -> None:
        """Ends admission and returns when every sequence has its answer."""
        self._server.stop()
        self._exporter.close()


def _device(args: Mapping[str, str]) -> str:
    """The device Triton gave to this instance; an instance of KIND_MODEL chooses itself."""
    kind = args["model_instance_kind"]
    if kind == "GPU":
        return f"cuda:{args['model_instance_device_id']}"
    return "cpu" if kind == "CPU" else "auto"
