"""The code of a stand-in for gate or engine; it runs inside Triton's Python backend."""

import os
import threading
import time
import uuid
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        name = args["model_name"]
        with open(os.environ["STARTS"], "a") as starts:  # noqa: PTH123 - one write, appended whole
            starts.write(f"{name}\n")
        self.engine = name.endswith("-engine")
        if not self.engine and "RELEASE" in os.environ:
            kind = pb_utils.MetricFamily.GAUGE
            self.family = pb_utils.MetricFamily(name="llm_gate_held_requests", description="held", kind=kind)
            self.held = self.family.Metric(labels={"model": name, "instance": uuid.uuid4().hex})
            self.held.set(0)

    def finalize(self) -> None:
        # A series that is still there when the interpreter ends hangs the process: its removal asks Triton.
        self.held = None
        self.family = None

    def execute(self, requests: list[Any]) -> list[Any] | None:
        if self.engine:
            return [
                pb_utils.InferenceResponse([pb_utils.Tensor("control", np.array([b"{}"], dtype=object))])
                for _ in requests
            ]
        for request in requests:
            text = pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy().ravel()[0]
            threading.Thread(target=self.answer, args=(text, request.get_response_sender())).start()
        return None

    def answer(self, text: bytes, sender: Any) -> None:
        while text == b"hold" and not os.path.exists(os.environ["RELEASE"]):  # noqa: PTH110 - inside Triton
            time.sleep(0.01)
        word = pb_utils.Tensor("text_output", np.array([[b"word"]], dtype=object))
        sender.send(pb_utils.InferenceResponse([word]), flags=FINAL)
