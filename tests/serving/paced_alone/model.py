"""The paced engine in the model that clients call, without a gate: what a service would be that has none.

Clients see the same tensors. The engine computes in a thread of this process and its responses are sent from there.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from typing import Any

import triton_python_backend_utils as pb_utils
from paced_engine import PacedEngine

from llmgate.gate_metrics import GateMetrics
from llmgate.request import parse_request
from llmgate.stream import Stream
from llmgate.triton_client import TritonClient, read_inputs, read_parameters
from llmserving.engine import Request
from llmserving.parameters import Parameters


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        parameters = Parameters.from_model_config(args["model_config"])
        self._engine = PacedEngine(
            parameters.integer("max_sequences", minimum=1),
            parameters.number("step_seconds", 0.008),
            parameters.number("sequence_seconds", 0.0005),
        )
        self._metrics = GateMetrics()
        self._keys = itertools.count(1)
        self._live: dict[int, Stream] = {}
        self._arrived: deque[tuple[Request, Stream]] = deque()
        self._wake = threading.Event()
        threading.Thread(target=self._compute, daemon=True).start()

    def execute(self, requests: list[Any]) -> None:
        for request in requests:
            prompt = parse_request(read_inputs(pb_utils, request), read_parameters(request))
            client = TritonClient(pb_utils, request.get_response_sender(), (1,))
            stream = Stream(client, prompt, self._metrics, time.monotonic)
            self._arrived.append((Request(next(self._keys), prompt.text, sampling=prompt.sampling), stream))
        self._wake.set()

    def _compute(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            while self._arrived or self._engine.has_work():
                while self._arrived:
                    request, stream = self._arrived.popleft()
                    self._live[request.key] = stream
                    self._engine.add(request)
                for output in self._engine.step():
                    stream = self._live[output.key]
                    if output.ends_request:
                        del self._live[output.key]
                    stream.take(output)
