"""Generations and parts in the tensors of Triton's gRPC protocol (docs/architecture.md has the gate's table)."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

from tritonclient.grpc import service_pb2  # type: ignore[import-untyped]

from llmservice.openai.generation import Generation, Part, TokenLogprob

LEAST_LOGPROB: Final = -9999.0
"""What OpenAI's API writes for a token that could not come; JSON has no infinity."""
_LENGTH: Final = struct.Struct("<I")


def encode(model: str, generation: Generation) -> Any:
    """The `ModelInferRequest` of a generation."""
    request = service_pb2.ModelInferRequest(model_name=model, id=generation.request_id)
    if generation.prompt is not None:
        _add_text(request, "text_input", generation.prompt)
    else:
        _add_text(request, "messages", json.dumps(generation.messages, ensure_ascii=False))
    request.inputs.add(name="stream", datatype="BOOL", shape=[1, 1])
    request.raw_input_contents.append(bytes([generation.stream]))
    # In one tensor, so that all requests have the same inputs: Triton puts only such into one batch.
    _add_text(request, "sampling_parameters", json.dumps(generation.sampling, ensure_ascii=False))
    parameters = request.parameters
    parameters["error_codes"].bool_param = True
    parameters["deadline_ms"].int64_param = max(1, round(generation.timeout_seconds * 1000))
    if generation.client:
        parameters["client"].string_param = generation.client
    if generation.priority is not None:
        # Triton orders its own queue by the first and keeps it from its models; the gate orders its line by the second.
        parameters["priority"].uint64_param = generation.priority
        parameters["priority_level"].int64_param = generation.priority
    return request


def decode(response: Any) -> list[Part]:
    """The parts in a `ModelInferResponse`: one while streaming, one for each answer where they come whole."""
    tensors = {
        tensor.name: raw for tensor, raw in zip(response.outputs, response.raw_output_contents, strict=False) if raw
    }
    texts = list(_texts(tensors.get("text_output", b"")))
    indexes = _counts(tensors.get("index", b"")) or list(range(len(texts)))
    reasons: Sequence[str | None] = [*_texts(tensors.get("finish_reason", b""))] or [None] * len(texts)
    outputs = _counts(tensors.get("num_output_tokens", b"")) or [0] * len(texts)
    inputs = (_counts(tensors.get("num_input_tokens", b"")) or [0])[0]
    logprobs = [_logprobs(text) for text in _texts(tensors.get("logprobs", b""))] or [()] * len(texts)
    return [
        Part(index, text, reason, inputs, count, told)
        for index, text, reason, count, told in zip(indexes, texts, reasons, outputs, logprobs, strict=True)
    ]


def _add_text(request: Any, name: str, text: str) -> None:
    value = text.encode()
    request.inputs.add(name=name, datatype="BYTES", shape=[1, 1])
    request.raw_input_contents.append(_LENGTH.pack(len(value)) + value)


def _texts(raw: bytes) -> Iterator[str]:
    start = 0
    while start < len(raw):
        (length,) = _LENGTH.unpack_from(raw, start)
        start += _LENGTH.size
        yield raw[start : start + length].decode("utf-8", "replace")
        start += length


def _counts(raw: bytes) -> list[int]:
    return [count for (count,) in _LENGTH.iter_unpack(raw)]


def _logprobs(text: str) -> tuple[TokenLogprob, ...]:
    return tuple(
        TokenLogprob(
            one["token"],
            _finite(one["logprob"]),
            tuple((top["token"], _finite(top["logprob"])) for top in one["top_logprobs"]),
        )
        for one in json.loads(text or "[]")
    )


def _finite(logprob: float) -> float:
    return max(LEAST_LOGPROB, logprob)
