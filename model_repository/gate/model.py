"""Triton's entry into the gate."""

from __future__ import annotations

import json
from typing import Any

import triton_python_backend_utils as pb_utils

from llmgate.client import Client, Fault
from llmgate.gate import Gate
from llmgate.gate_metrics import GateMetrics, Outcome
from llmgate.request import InvalidRequestError, Prompt, parse_request
from llmgate.triton_client import ShapeError, TritonClient, read_inputs, read_parameters
from llmserving.metrics import TritonMetrics
from llmserving.parameters import MeetingPlace, Parameters


class TritonPythonModel:
    """What Triton's Python backend calls."""

    def initialize(self, args: dict[str, str]) -> None:
        """Meets the engine instances there are; others are found when they come."""
        parameters = Parameters.from_model_config(args["model_config"])
        batched = json.loads(args["model_config"])["max_batch_size"] > 0
        labels = {"model": args["model_name"], "version": args["model_version"]}
        self._leading = (1,) if batched else ()
        self._exporter = TritonMetrics(pb_utils.MetricFamily, labels)
        self._metrics = GateMetrics(self._exporter)
        place = MeetingPlace.of(parameters)
        self._gate = Gate(place, parameters.mode(), self._metrics)
        self._gate.start()

    def execute(self, requests: list[Any]) -> None:
        """Returns when every request is inside an engine or answered; a thread of the gate relays the tokens."""
        parsed = [self._parse(request) for request in requests]
        self._gate.admit([one for one in parsed if one is not None])

    def finalize(self) -> None:
        """Triton calls this when the last response of this gate was sent."""
        self._gate.close()
        self._exporter.close()

    def _parse(self, request: Any) -> tuple[Prompt, Client] | None:
        client = TritonClient(pb_utils, request.get_response_sender(), self._leading)
        try:
            prompt = parse_request(read_inputs(pb_utils, request), read_parameters(request))
        except (InvalidRequestError, ShapeError) as error:
            client.fail(str(error), Fault.INVALID_ARG)
            self._metrics.finished(Outcome.INVALID)
            return None
        client.tells_index = prompt.sampling.n > 1
        return prompt, client
