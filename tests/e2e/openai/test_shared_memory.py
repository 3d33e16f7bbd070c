"""Questions and answers through shared memory, on a real tritonserver; what its limits are."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton  # type: ignore[import-untyped]
from tritonclient.utils import InferenceServerException  # type: ignore[import-untyped]
from tritonclient.utils import shared_memory as shm

from examples.clients.shared_memory import TOKEN_HEADER, ask, region
from llmservice.local.tritonserver import TritonServer
from tests.e2e.openai.conftest import TOKEN
from tests.serving.smollm2_service import NAME

pytestmark = pytest.mark.e2e
QUESTION = "What is the capital of France?"


def test_question_and_answer_go_through_shared_memory_and_leave_nothing_there(server: TritonServer) -> None:
    answer = ask(server.grpc_address, NAME, TOKEN, QUESTION)
    assert answer == "The capital of France is Paris."
    assert list(Path("/dev/shm").glob("llm-client-*")) == []


def test_nobody_registers_a_region_without_the_token(server: TritonServer) -> None:
    with pytest.raises(InferenceServerException, match="This protocol is restricted"):
        ask(server.grpc_address, NAME, "guessed", QUESTION)


@contextmanager
def answers(server: TritonServer, room: int, *, stream: bool) -> Iterator[tuple[Any, Any]]:
    """Responses to a request whose text goes to a region of `room` bytes, and the region's handle."""
    headers = {TOKEN_HEADER: TOKEN}
    responses: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with triton.InferenceServerClient(server.grpc_address) as client, region(client, room, headers) as (name, handle):
        prompt = triton.InferInput("text_input", [1, 1], "BYTES")
        prompt.set_data_from_numpy(np.array([[b"Once upon a time"]], dtype=object))
        streaming = triton.InferInput("stream", [1, 1], "BOOL")
        streaming.set_data_from_numpy(np.array([[stream]]))
        wanted = triton.InferRequestedOutput("text_output")
        wanted.set_shared_memory(name, room)
        client.start_stream(callback=lambda result, error: responses.put((result, error)))
        parameters = {"max_tokens": 8, "temperature": 0.0, "ignore_eos": True}
        client.async_stream_infer(NAME, [prompt, streaming], outputs=[wanted], parameters=parameters)
        yield responses, handle
        client.stop_stream()


def test_an_answer_that_finds_no_room_is_an_error(server: TritonServer) -> None:
    with answers(server, room=8, stream=False) as (responses, _):
        result, error = responses.get(timeout=60)
    assert result is None
    assert "shared memory" in str(error)


def test_parts_of_a_stream_are_written_over_each_other(server: TritonServer) -> None:
    with answers(server, room=4096, stream=True) as (responses, handle):
        for _ in range(8):
            result, error = responses.get(timeout=60)
            assert error is None
            assert result.get_output("text_output").parameters["shared_memory_byte_size"].int64_param <= 4096
        last = shm.get_contents_as_numpy(handle, np.object_, [1, 1]).item().decode()
    assert len(last.split()) <= 1
