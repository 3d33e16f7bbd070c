# ruff: noqa: N802 - the methods have the names of the protocol
"""A gate in memory behind a real gRPC server: it answers as SmolLM2 does to what the cases ask.

How it streams, ends and refuses is what was measured on tritonserver 2.51; the cases of tests/openai_contract run on
both.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import struct
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import grpc  # type: ignore[import-untyped]
from tritonclient.grpc import service_pb2, service_pb2_grpc  # type: ignore[import-untyped]

from tests.openai_contract.registry import INPUT_TOKENS, MAX_LENGTH, MODEL, NARROW_LEVEL, QUESTION

ANSWER = ["The", " capital", " of", " France", " is", " Paris", ".", ""]
SLOTS = 2
LEVELS = 3


@dataclass(frozen=True)
class Asked:
    """A request as the gate reads it."""

    prompt: str
    stream: bool
    sampling: dict[str, Any]
    parameters: dict[str, Any]


@dataclass
class FakeGate(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]
    """`asked` keeps every request. `breaks_after` ends a stream with an error after so many tokens."""

    asked: list[Asked] = field(default_factory=list)
    running: int = 0
    waiting: int = 0
    token_seconds: float = 0.001
    breaks_after: int | None = None
    ready: bool = True
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(SLOTS))

    async def ModelReady(self, request: Any, context: Any) -> Any:
        return service_pb2.ModelReadyResponse(ready=self.ready and request.name == MODEL)

    async def ModelStreamInfer(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        request = await anext(aiter(requests))
        asked = _read(request)
        self.asked.append(asked)
        if not self.ready:
            yield _words(f"Request for unknown model: '{request.model_name}' has no available versions")
            return
        if asked.parameters.get("priority") == NARROW_LEVEL and self.waiting > 1:
            yield _words("[request id: <id_unknown>] Exceeds maximum queue size")
            return
        if words := _refusal(asked):
            yield _words(f"INVALID_ARG: {words}")
            return
        self.waiting += 1
        try:
            await self.slots.acquire()
        finally:
            self.waiting -= 1
        self.running += 1
        try:
            async for response in self._answer(asked, context):
                yield response
        finally:
            self.running -= 1
            self.slots.release()

    async def _answer(self, asked: Asked, context: Any) -> AsyncIterator[Any]:
        deadline = asyncio.get_running_loop().time() + asked.parameters["deadline_ms"] / 1000
        answers = [_answer(asked, index) for index in range(asked.sampling.get("n", 1))]
        for number in range(max(len(answer.tokens) for answer in answers)):
            await asyncio.sleep(self.token_seconds)
            if number == self.breaks_after:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "engine instance 1 ended")
            if asyncio.get_running_loop().time() > deadline:
                yield _response(asked, [replace(answer, reason="deadline") for answer in answers])
                return
            for answer in answers if asked.stream else ():
                if number < len(answer.tokens):
                    yield _response(asked, [answer.at(number)])
        if not asked.stream:
            yield _response(asked, answers)


@dataclass(frozen=True)
class Answer:
    """An answer, or one token of it; the last one has a reason."""

    index: int
    tokens: list[str]
    reason: str = ""
    count: int = 0

    def at(self, number: int) -> Answer:
        """What is sent of it after so many tokens."""
        reason = self.reason if number == len(self.tokens) - 1 else ""
        return Answer(self.index, self.tokens[number : number + 1], reason, self.count)


def _answer(asked: Asked, index: int) -> Answer:
    """The known answer, else numbers that depend on prompt, seed, index and adapter."""
    most = asked.sampling["max_tokens"]
    tokens = [*ANSWER[:-1], f"{index}"] if index else ANSWER
    adapter = asked.sampling.get("adapter", "")
    if QUESTION not in asked.prompt or asked.sampling.get("ignore_eos") or adapter:
        word = hashlib.sha256(f"{asked.prompt}{asked.sampling.get('seed')}{index}{adapter}".encode()).hexdigest()[:4]
        tokens = [f" {word}{number}" for number in range(most)]
    for stop in asked.sampling.get("stop", []):
        tokens = "".join(tokens).partition(stop)[0].replace(" ", "\0 ").split("\0")
    return Answer(index, tokens[:most], "length" if len(tokens) >= most else "stop", len(tokens[:most]))


def _refusal(asked: Asked) -> str:
    """The gate's words for what it refuses; empty for what it takes."""
    assert asked.parameters["error_codes"] is True
    words = ""
    if len(asked.prompt.split()) > MAX_LENGTH:
        words = f"the prompt is too long (spec.model.maxLength {MAX_LENGTH}): send a shorter one"
    if "no-token" in asked.sampling.get("logit_bias", {}):
        words = "logit_bias[no-token]: must be a whole number from 0 to 2147483647, not 'no-token'"
    if asked.parameters.get("priority_level", 1) > LEVELS:
        words = f"priority_level: must be a level of this service, from 1 (the highest) to {LEVELS}, not 9"
    return words


def _read(request: Any) -> Asked:
    raw = dict(zip((tensor.name for tensor in request.inputs), request.raw_input_contents, strict=True))
    text = raw["text_input"] if "text_input" in raw else raw["messages"]
    parameters = {
        name: getattr(value, value.WhichOneof("parameter_choice")) for name, value in request.parameters.items()
    }
    sampling = json.loads(raw["sampling_parameters"][4:])
    return Asked(text[4:].decode(), raw["stream"] == b"\1", sampling, parameters)


def _response(asked: Asked, answers: list[Answer]) -> Any:
    response = service_pb2.ModelStreamInferResponse()
    _add(response, "text_output", b"".join(_text("".join(answer.tokens)) for answer in answers))
    _add(response, "token_ids", bytes(4 * sum(len(answer.tokens) for answer in answers)))
    if "n" in asked.sampling:
        _add(response, "index", _counts(answer.index for answer in answers))
    if "logprobs" in asked.sampling:
        told = (json.dumps([_logprob(token) for token in answer.tokens]) for answer in answers)
        _add(response, "logprobs", b"".join(_text(text) for text in told))
    if answers[0].reason:
        _add(response, "finish_reason", b"".join(_text(answer.reason) for answer in answers))
        _add(response, "num_input_tokens", _counts([INPUT_TOKENS if QUESTION in asked.prompt else 2]))
        _add(response, "num_output_tokens", _counts(answer.count for answer in answers))
    return response


def _logprob(token: str) -> dict[str, Any]:
    top = [{"token_id": 1, "token": token, "logprob": -0.1}, {"token_id": 2, "token": "x", "logprob": -math.inf}]
    return {**top[0], "top_logprobs": top}


def _counts(counts: Iterable[int]) -> bytes:
    return b"".join(struct.pack("<I", count) for count in counts)


def _add(response: Any, name: str, raw: bytes) -> None:
    response.infer_response.outputs.add(name=name)
    response.infer_response.raw_output_contents.append(raw)


def _text(text: str) -> bytes:
    return struct.pack("<I", len(text.encode())) + text.encode()


def _words(message: str) -> Any:
    return service_pb2.ModelStreamInferResponse(error_message=message)
