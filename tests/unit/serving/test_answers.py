"""Several answers to one request, on their way through the gate."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from llmgate.client import Fault
from llmgate.gate_metrics import GateMetrics
from llmgate.request import Prompt
from llmgate.stream import Stream
from llmgate.triton_client import TritonClient
from llmserving.engine import FinishReason, Output, SamplingParameters, TokenLogprob
from tests.serving.clients import RecordingClient

pytestmark = pytest.mark.unit

OUTPUTS = (
    Output(1, "a", (10,), logprobs=(TokenLogprob(10, "a", -0.5, ((10, "a", -0.5), (9, "z", -1.5))),)),
    Output(1, "x", (20,), index=1),
    Output(1, "b", (11,), finish_reason=FinishReason.STOP, num_input_tokens=4, num_output_tokens=2, unfinished=1),
    Output(1, "y", (21,), index=1),
    Output(1, "", (22,), index=1, finish_reason=FinishReason.DEADLINE, num_input_tokens=4, num_output_tokens=3),
)


def relay(client: RecordingClient, *, stream: bool) -> None:
    prompt = Prompt("hello", None, stream, SamplingParameters(n=2))
    relayed = Stream(client, prompt, GateMetrics(), lambda: 0.0)
    for output in OUTPUTS:
        assert not relayed.ended
        relayed.take(output)
    assert relayed.ended


def test_streamed_each_answer_ends_by_itself() -> None:
    client = RecordingClient()
    relay(client, stream=True)
    assert client.tokens == list(OUTPUTS[:4])
    assert list(client.finals) == [OUTPUTS[4]]


def test_whole_all_answers_come_in_one_response() -> None:
    client = RecordingClient()
    relay(client, stream=False)
    assert client.tokens == []
    assert [(one.index, one.text, one.token_ids, one.finish_reason) for one in client.finals] == [
        (0, "ab", (10, 11), FinishReason.STOP),
        (1, "xy", (20, 21, 22), FinishReason.DEADLINE),
    ]
    assert client.finals[0].logprobs == OUTPUTS[0].logprobs


class Tensors:
    """Stands for Triton's module: tensors by name, responses as they were sent."""

    TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    @staticmethod
    def Tensor(name: str, values: np.ndarray[Any, Any]) -> tuple[str, Any]:  # noqa: N802 -- Triton's name
        return name, values

    class TritonError:
        INVALID_ARG = 3

        def __init__(self, message: str, code: int) -> None:
            self.told = (message, code)

    @staticmethod
    def InferenceResponse(  # noqa: N802 -- Triton's name
        tensors: Sequence[tuple[str, Any]] = (), error: Any = None
    ) -> dict[str, Any]:
        return dict(tensors) if error is None else {"error": error.told}

    def send(self, response: dict[str, Any], flags: int = 0) -> None:
        self.sent.append(response | {"final": flags})


def test_tensors_have_one_element_for_each_answer() -> None:
    triton = Tensors()
    client = TritonClient(triton, triton, leading=(1,))
    client.tells_index = True
    client.last([OUTPUTS[2], OUTPUTS[4]])
    (sent,) = triton.sent
    assert sent["index"].tolist() == [[0, 1]]
    assert sent["token_ids"].tolist() == [[11, 22]]
    assert sent["num_output_tokens"].tolist() == [[2, 3]]
    assert sent["num_input_tokens"].tolist() == [[4]]
    assert sent["finish_reason"].tolist() == [[b"stop", b"deadline"]]
    assert sent["final"] == 1


def test_the_kind_of_an_error_goes_before_its_words_where_the_client_asks_for_it() -> None:
    triton = Tensors()
    client = TritonClient(triton, triton, leading=(1,))
    client.fail("n: must be a number", Fault.INVALID_ARG)
    client.tells_fault = True
    client.fail("n: must be a number", Fault.INVALID_ARG)
    assert [sent["error"] for sent in triton.sent] == [
        ("n: must be a number", 3),
        ("INVALID_ARG: n: must be a number", 3),
    ]


def test_log_probabilities_are_json_in_the_names_of_the_openai_api() -> None:
    triton = Tensors()
    TritonClient(triton, triton, leading=()).token(OUTPUTS[0])
    (sent,) = triton.sent
    assert "index" not in sent
    assert "finish_reason" not in sent
    assert json.loads(sent["logprobs"].item()) == [
        {
            "token_id": 10,
            "token": "a",
            "logprob": -0.5,
            "top_logprobs": [
                {"token_id": 10, "token": "a", "logprob": -0.5},
                {"token_id": 9, "token": "z", "logprob": -1.5},
            ],
        }
    ]
