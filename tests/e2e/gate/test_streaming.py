"""What clients see: every token, in order, and errors that name the field."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.serving.paced_service import PacedService, paced_service
from tests.serving.streams import GrpcStream, post, stream_many

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def service() -> Iterator[PacedService]:
    with paced_service() as running:
        yield running


async def test_thirty_two_streams_get_every_token_in_order(service: PacedService) -> None:
    load = await stream_many(service.server.http_url, streams=32, requests=128, max_tokens=24)

    assert load.whole, load.errors
    assert load.tokens == 128 * 24
    assert service.free_slots() == service.total_slots() == 18


def test_without_stream_the_answer_comes_whole(service: PacedService) -> None:
    status, answer = post(service.server.http_url, "generate", {"text_input": "two words", "max_tokens": 3})

    assert status == 200
    assert answer["text_output"] == "t0 t1 t2 "
    assert answer["token_ids"] == [0, 1, 2]
    assert answer["finish_reason"] == "length"
    assert (answer["num_input_tokens"], answer["num_output_tokens"]) == (2, 3)


def test_sampling_parameters_come_as_json_too(service: PacedService) -> None:
    sampling = json.dumps({"max_tokens": 2, "stop": ["\n"], "temperature": 0.5})
    messages = json.dumps([{"role": "user", "content": "Hi"}])

    status, answer = post(service.server.http_url, "generate", {"messages": messages, "sampling_parameters": sampling})

    assert (status, answer["token_ids"]) == (200, [0, 1])


def test_grpc_streams_token_by_token(service: PacedService) -> None:
    with GrpcStream(service.server.grpc_address, max_tokens=3) as stream:
        assert [stream.text() for _ in range(3)] == ["t0 ", "t1 ", "t2 "]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"stream": False}, "exactly one of the inputs text_input and messages"),
        (
            {"text_input": "a", "messages": '[{"role": "user", "content": "a"}]'},
            "exactly one of the inputs text_input and messages",
        ),
        ({"text_input": "a", "max_tokens": 0}, "max_tokens: must be a whole number from 1"),
        ({"text_input": "a", "temperature": -1}, "temperature: must be a number from 0"),
        ({"text_input": "a", "max_token": 4}, "max_token: no such sampling parameter; known are max_tokens"),
        ({"text_input": "a", "sampling_parameters": "{"}, "sampling_parameters: is not JSON"),
        ({"messages": '[{"role": "user"}]'}, "messages[0].content: must be a string"),
        ({"text_input": ["a", "b"]}, "text_input"),
        ({"text_input": "refuse"}, "text_input: this prompt is refused"),
    ],
)
def test_a_bad_request_is_told_which_field(service: PacedService, body: dict[str, object], says: str) -> None:
    status, answer = post(service.server.http_url, "generate", body)

    assert status == 400
    assert says in answer["error"]


def test_the_engine_takes_no_requests_itself(service: PacedService) -> None:
    status, answer = post(service.server.http_url, "generate", {"text_input": "hello"}, model="chat-engine")

    assert status >= 400
    assert "call the model with the service's name" in answer["error"]
