"""Triton's entry into the gate."""

from __future__ import annotations

import json
from typing import Any

import triton_python_backend_utils as pb_utils

from llmgate.client import Client, Fault
from llmgate.gate import Gate
from llmgate.gate_metrics import GateMetrics, Outcome
from llmgate.levels import Levels
from llmgate.request import InvalidRequestError, Prompt, parse_request
from llmgate.triton_client import ERROR_CODES, ShapeError, TritonClient, read_inputs, read_parameters
from llmserving.metrics import TritonMetrics
from llmserving.parameters import MeetingPlace, Parameters
from llmserving.scheduling_policy import give_way


class TritonPythonModel:
    """What Triton's Python backend calls."""

    def initialize(self, args: dict[str, str]) -> None:
        """Meets the engine instances there are; others are found when they come."""
        give_way()
        parameters = Parameters.from_model_config(args["model_config"])
        config = json.loads(args["model_config"])
        labels = {"model": args["model_name"], "version": args["model_version"]}
        self._leading = (1,) if config["max_batch_size"] > 0 else ()
        self._exporter = TritonMetrics(pb_utils.MetricFamily, labels)
        self._metrics = GateMetrics(self._exporter)
        self._gate = Gate(
            MeetingPlace.of(parameters),
            parameters.mode(),
            self._metrics,
            levels=Levels.of(parameters),
            max_sequences=parameters.integer("max_sequences", minimum=1),
            delay=int(config.get("dynamic_batching", {}).get("max_queue_delay_microseconds", 0)) / 1e6,
        )
        self._gate.start()

    def execute(self, requests: list[Any]) -> None:
        """Returns at once: requests that find no slot wait in the gate's line, where they can still be put in order."""
        parsed = [self._parse(request) for request in requests]
        self._gate.admit([one for one in parsed if one is not None])

    def finalize(self) -> None:
        """Triton calls this when the last response of this gate was sent."""
        self._gate.close()
        self._exporter.close()

    def _parse(self, request: Any) -> tuple[Prompt, Client] | None:
        parameters = read_parameters(request)
        client = TritonClient(pb_utils, request.get_response_sender(), self._leading)
        client.tells_fault = parameters.pop(ERROR_CODES, False) is True
        try:
            prompt = parse_request(read_inputs(pb_utils, request), parameters)
        except (InvalidRequestError, ShapeError) as error:
            client.fail(str(error), Fault.INVALID_ARG)
            self._metrics.finished(Outcome.INVALID)
            return None
        client.tells_index = prompt.sampling.n > 1
        return prompt, client
