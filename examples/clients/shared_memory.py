"""Asks and is answered through shared memory: python shared_memory.py ADDRESS MODEL TOKEN QUESTION.

ADDRESS is the gRPC endpoint of a Triton on this host. TOKEN opens the restricted API `shared-memory`
(docs/shared-memory.md says why it is one); `llmservice run --token-file FILE` writes it. Question and answer never pass
through a socket: what does is a message of some hundred bytes that says where they lie.
"""

from __future__ import annotations

import json
import queue
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import tritonclient.grpc as triton  # type: ignore[import-untyped]
from tritonclient.utils import serialize_byte_tensor  # type: ignore[import-untyped]
from tritonclient.utils import shared_memory as shm

ANSWER_BYTES = 64 * 1024
"""Room for the answer. One that is longer is refused by Triton, so ask for no more tokens than fit."""
TOKEN_HEADER = "triton-grpc-protocol-triton-llm-token"  # noqa: S105 - the name of a header, not a secret


@contextmanager
def region(client: triton.InferenceServerClient, size: int, headers: dict[str, str]) -> Iterator[tuple[str, object]]:
    """A region that both sides see: its name and this side's handle. Gone afterwards."""
    name = f"llm-client-{uuid.uuid4().hex[:8]}"
    handle = shm.create_shared_memory_region(name, f"/{name}", size)
    try:
        client.register_system_shared_memory(name, f"/{name}", size, headers=headers)
        try:
            yield name, handle
        finally:
            client.unregister_system_shared_memory(name, headers=headers)
    finally:
        shm.destroy_shared_memory_region(handle)


def ask(address: str, model: str, token: str, question: str, max_tokens: int = 48) -> str:
    """The whole answer. Raises InferenceServerException when the server refuses."""
    headers = {TOKEN_HEADER: token}
    messages = json.dumps([{"role": "user", "content": question}]).encode()
    serialized = serialize_byte_tensor(np.array([[messages]], dtype=object))
    size = len(serialized.item())
    with (
        triton.InferenceServerClient(address) as client,
        region(client, size, headers) as (input_region, input_handle),
        region(client, ANSWER_BYTES, headers) as (output_region, output_handle),
    ):
        shm.set_shared_memory_region(input_handle, [serialized])
        asked = triton.InferInput("messages", [1, 1], "BYTES")
        asked.set_shared_memory(input_region, size)
        wanted = triton.InferRequestedOutput("text_output")
        wanted.set_shared_memory(output_region, ANSWER_BYTES)
        result = _infer(client, model, asked, wanted, max_tokens)
        text = result.get_output("text_output")
        answer = shm.get_contents_as_numpy(output_handle, np.object_, list(text.shape))
        return str(answer.ravel()[0].decode())


def _infer(
    client: triton.InferenceServerClient,
    model: str,
    asked: triton.InferInput,
    wanted: triton.InferRequestedOutput,
    max_tokens: int,
) -> triton.InferResult:
    """One request whose answer comes at once: parts of a stream would be written over each other in the region."""
    responses: queue.SimpleQueue[tuple[triton.InferResult | None, Exception | None]] = queue.SimpleQueue()
    client.start_stream(callback=lambda result, error: responses.put((result, error)))
    client.async_stream_infer(
        model, [asked], outputs=[wanted], parameters={"max_tokens": max_tokens, "temperature": 0.0}
    )
    result, error = responses.get(timeout=120)
    client.stop_stream()
    if error or result is None:
        raise error or RuntimeError("the stream ended without a response")
    return result


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    sys.stdout.write(ask(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4]) + "\n")
