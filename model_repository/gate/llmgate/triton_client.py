"""A client behind Triton's Python backend: outputs as tensors, errors and cancellation through its response sender."""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np

from llmgate.client import Fault
from llmserving.engine import Output

INPUTS: Final = ("text_input", "messages", "stream", "sampling_parameters")


class TritonClient:
    """One request's response sender. `pb_utils` is Triton's module; `leading` the shape of its batch dimension."""

    def __init__(self, pb_utils: Any, sender: Any, leading: tuple[int, ...]) -> None:
        self._pb_utils = pb_utils
        self._sender = sender
        self._leading = leading

    def token(self, output: Output) -> None:
        """See `Client`."""
        self._sender.send(self._response(output))

    def last(self, output: Output) -> None:
        """See `Client`."""
        response = self._response(
            output,
            self._text("finish_reason", str(output.finish_reason)),
            self._count("num_input_tokens", output.num_input_tokens),
            self._count("num_output_tokens", output.num_output_tokens),
        )
        self._sender.send(response, flags=self._pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def fail(self, message: str, fault: Fault) -> None:
        """See `Client`."""
        error = self._pb_utils.TritonError(message, getattr(self._pb_utils.TritonError, fault.value))
        response = self._pb_utils.InferenceResponse(error=error)
        self._sender.send(response, flags=self._pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def end(self) -> None:
        """See `Client`."""
        self._sender.send(flags=self._pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def cancelled(self) -> bool:
        """See `Client`."""
        return bool(self._sender.is_cancelled())

    def _response(self, output: Output, *more: Any) -> Any:
        token_ids = np.array(output.token_ids, dtype=np.int32).reshape((*self._leading, -1))
        tensors = [self._text("text_output", output.text), self._pb_utils.Tensor("token_ids", token_ids), *more]
        return self._pb_utils.InferenceResponse(tensors)

    def _text(self, name: str, text: str) -> Any:
        value = np.array([text.encode("utf-8", "replace")], dtype=np.object_)
        return self._pb_utils.Tensor(name, value.reshape((*self._leading, 1)))

    def _count(self, name: str, value: int) -> Any:
        return self._pb_utils.Tensor(name, np.full((*self._leading, 1), value, dtype=np.uint32))


class ShapeError(ValueError):
    """An input carries more or less than one value."""


def read_inputs(pb_utils: Any, request: Any) -> dict[str, Any]:
    """The request's input values by name, of the inputs that were sent. Raises ShapeError."""
    values: dict[str, Any] = {}
    for name in INPUTS:
        tensor = pb_utils.get_input_tensor_by_name(request, name)
        if tensor is None:
            continue
        value = tensor.as_numpy()
        if value.size != 1:
            raise ShapeError(f"{name}: one request carries one prompt, so one value, not {value.size}")
        values[name] = value.item()
    return values


def read_parameters(request: Any) -> dict[str, Any]:
    """The request parameters by name."""
    parameters = json.loads(request.parameters() or "{}")
    return dict(parameters)
