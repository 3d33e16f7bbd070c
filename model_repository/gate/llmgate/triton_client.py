"""A client behind Triton's Python backend: outputs as tensors, errors and cancellation through its response sender."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from llmgate.client import Fault
from llmserving.engine import Output, TokenLogprob

ERROR_CODES: Final = "error_codes"
"""A request parameter: true asks for the kind of an error before its words. In a gRPC stream Triton passes on the words
only, and its own way to ask for a status code (the header `triton_grpc_error`) ends the server now and then."""

INPUTS: Final = ("text_input", "messages", "stream", "sampling_parameters")


class TritonClient:
    """One request's response sender. `pb_utils` is Triton's module; `leading` the shape of its batch dimension.

    `tells_index` adds to every response which answer it belongs to; set it when there are several. `tells_fault` puts
    the kind of an error before its words.
    """

    def __init__(self, pb_utils: Any, sender: Any, leading: tuple[int, ...]) -> None:
        self._pb_utils = pb_utils
        self._sender = sender
        self._leading = leading
        self.tells_index = False
        self.tells_fault = False

    def token(self, output: Output) -> None:
        """See `Client`."""
        self._sender.send(self._response([output]))

    def last(self, outputs: Sequence[Output]) -> None:
        """See `Client`."""
        self._sender.send(self._response(outputs), flags=self._pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def fail(self, message: str, fault: Fault) -> None:
        """See `Client`."""
        message = f"{fault.value}: {message}" if self.tells_fault else message
        error = self._pb_utils.TritonError(message, getattr(self._pb_utils.TritonError, fault.value))
        response = self._pb_utils.InferenceResponse(error=error)
        self._sender.send(response, flags=self._pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def end(self) -> None:
        """See `Client`."""
        self._sender.send(flags=self._pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def cancelled(self) -> bool:
        """See `Client`."""
        return bool(self._sender.is_cancelled())

    def _response(self, outputs: Sequence[Output]) -> Any:
        """One value for each output; token ids of several are laid end to end, `num_output_tokens` tells them apart."""
        token_ids = np.array([token for output in outputs for token in output.token_ids], dtype=np.int32)
        tensors = [
            self._texts("text_output", [output.text for output in outputs]),
            self._pb_utils.Tensor("token_ids", token_ids.reshape((*self._leading, -1))),
        ]
        if self.tells_index:
            tensors.append(self._counts("index", [output.index for output in outputs]))
        if any(output.logprobs for output in outputs):
            tensors.append(self._texts("logprobs", [logprobs_json(output.logprobs) for output in outputs]))
        if outputs[0].finish_reason is not None:
            tensors += [
                self._texts("finish_reason", [str(output.finish_reason) for output in outputs]),
                self._counts("num_input_tokens", [outputs[0].num_input_tokens]),
                self._counts("num_output_tokens", [output.num_output_tokens for output in outputs]),
            ]
        return self._pb_utils.InferenceResponse(tensors)

    def _texts(self, name: str, texts: Sequence[str]) -> Any:
        values = np.array([text.encode("utf-8", "replace") for text in texts], dtype=np.object_)
        return self._pb_utils.Tensor(name, values.reshape((*self._leading, -1)))

    def _counts(self, name: str, values: Sequence[int]) -> Any:
        return self._pb_utils.Tensor(name, np.array(values, dtype=np.uint32).reshape((*self._leading, -1)))


def logprobs_json(logprobs: Sequence[TokenLogprob]) -> str:
    """The tokens of a response with their log probabilities, named as in OpenAI's API."""
    return json.dumps(
        [
            {
                "token_id": one.token_id,
                "token": one.token,
                "logprob": one.logprob,
                "top_logprobs": [
                    {"token_id": token_id, "token": token, "logprob": logprob} for token_id, token, logprob in one.top
                ],
            }
            for one in logprobs
        ],
        ensure_ascii=False,
    )


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
    """The request parameters by name. But for `/generate` Triton takes `timeout` out of them and keeps it apart."""
    parameters = dict(json.loads(request.parameters() or "{}"))
    if request.timeout():
        parameters["timeout"] = request.timeout()
    return parameters
