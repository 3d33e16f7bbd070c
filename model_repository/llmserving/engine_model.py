"""What every engine model is to Triton: it opens an engine for the gates of its service. No client asks it."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import triton_python_backend_utils as pb_utils

from llmserving.control import answer_control
from llmserving.engine import Engine
from llmserving.engine_metrics import EngineMetrics
from llmserving.engine_server import EngineServer
from llmserving.metrics import TritonMetrics
from llmserving.parameters import MeetingPlace, Parameters
from llmserving.warm_up import warm_up


@dataclass(frozen=True)
class Given:
    """What an engine is opened with. `device` is `cpu`, `cuda:0` and so on, or `auto`.

    An engine that counts more than all do makes its metrics from `exporter`.
    """

    parameters: Parameters
    device: str
    metrics: EngineMetrics
    exporter: TritonMetrics


class EngineModel(ABC):
    """One instance of an engine in a process of its own, started by Triton: a backend says how it is opened.

    Only a process of Triton's Python backend can import this: `triton_python_backend_utils` is nowhere else.
    """

    @abstractmethod
    def open_engine(self, given: Given) -> Engine:
        """The engine with its weights; what it raises is Triton's load error, in words."""

    def connect(self, engine: Any, server: EngineServer) -> None:  # noqa: B027 -- most have nothing to tell each other
        """Called before the server starts, for an engine that wakes it."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Opens the engine and lets gates in."""
        parameters = Parameters.from_model_config(args["model_config"])
        slots = parameters.integer("slots", minimum=1)
        labels = {"model": args["model_name"], "version": args["model_version"]}
        self._exporter = TritonMetrics(pb_utils.MetricFamily, labels)
        metrics = EngineMetrics(self._exporter)
        started = time.monotonic()
        engine = self.open_engine(Given(parameters, device_of(args), metrics, self._exporter))
        metrics.load_seconds.set(time.monotonic() - started)
        if parameters.flag("warm_up", default=True):
            sequences = parameters.integer("max_sequences", 1, minimum=1)
            metrics.warm_up_seconds.set(warm_up(engine, sequences, batches=parameters.mode().runs_batches))
        self._server = EngineServer(engine, MeetingPlace.of(parameters), slots, metrics)
        self.connect(engine, self._server)
        self._server.start()

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Answers what is asked of a running engine; requests for tokens come from the gate."""
        return answer_control(pb_utils, requests, self._server)

    def finalize(self) -> None:
        """Ends admission and returns when every sequence has its answer."""
        self._server.stop()
        self._exporter.close()


def device_of(args: Mapping[str, str]) -> str:
    """The device Triton gave to this instance; an instance of KIND_MODEL chooses itself."""
    kind = args["model_instance_kind"]
    if kind == "GPU":
        return f"cuda:{args['model_instance_device_id']}"
    return "cpu" if kind == "CPU" else "auto"
