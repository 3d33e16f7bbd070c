"""Streams one answer over gRPC with NVIDIA's own client: python stream_grpc.py ADDRESS MODEL PROMPT."""

from __future__ import annotations

import json
import queue
import sys

import numpy as np
import tritonclient.grpc as triton  # type: ignore[import-untyped]


def stream(address: str, model: str, prompt: str, max_tokens: int = 48) -> None:
    """Prints the answer as it arrives, then why it ended. Raises InferenceServerException when the server refuses."""
    responses: queue.SimpleQueue[tuple[triton.InferResult | None, Exception | None]] = queue.SimpleQueue()
    messages = triton.InferInput("messages", [1, 1], "BYTES")
    messages.set_data_from_numpy(np.array([[json.dumps([{"role": "user", "content": prompt}])]], dtype=object))
    streaming = triton.InferInput("stream", [1, 1], "BOOL")
    streaming.set_data_from_numpy(np.array([[True]]))
    with triton.InferenceServerClient(address) as client:
        client.start_stream(callback=lambda result, error: responses.put((result, error)))
        client.async_stream_infer(
            model,
            [messages, streaming],
            enable_empty_final_response=True,
            parameters={"max_tokens": max_tokens, "temperature": 0.0},
        )
        while True:
            result, error = responses.get(timeout=120)
            if error or result is None:
                raise error or RuntimeError("the stream ended without a response")
            text = result.as_numpy("text_output")
            if text is not None and text.size:
                sys.stdout.write(text.ravel()[0].decode())
                sys.stdout.flush()
            if result.get_response().parameters["triton_final_response"].bool_param:
                break
    sys.stdout.write("\n")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    stream(sys.argv[1], sys.argv[2], sys.argv[3])
