"""What gate and engine say to each other over a Unix socket: frames of JSON, each with its length before it.

The gate speaks first with a `Hello`, the engine answers with a `Welcome`. Then the gate sends `Add` and `Cancel`, the
engine one `Step` per iteration with what that step gave the requests of this gate. A gate that leaves says `Bye`: an
end without it is a death.
"""

from __future__ import annotations

import json
import socket
import struct
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from llmserving.engine import FinishReason, Output, Request, SamplingParameters, TokenLogprob

VERSION: Final = 2
MAX_FRAME_BYTES: Final = 256 * 1024 * 1024

_LENGTH: Final = struct.Struct("<I")
_READ_BYTES: Final = 1 << 18
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class ProtocolError(RuntimeError):
    """The other side speaks another version or nonsense."""


@dataclass(frozen=True)
class Hello:
    """The gate's first word."""

    version: int = VERSION


@dataclass(frozen=True)
class Welcome:
    """The engine's answer: its instance's name and the number under which this gate takes slots."""

    instance: str
    gate: int
    version: int = VERSION


@dataclass(frozen=True)
class Add:
    """Requests to admit, each with the slot it holds. A batch that runs to completion comes whole, in one message."""

    admissions: tuple[tuple[int, Request], ...]


@dataclass(frozen=True)
class Cancel:
    """Requests whose clients left."""

    keys: tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """What one step gave."""

    outputs: tuple[Output, ...]


@dataclass(frozen=True)
class Bye:
    """The gate's last word."""


Message = Hello | Welcome | Add | Cancel | Step | Bye


def encode(message: Message) -> bytes:
    """The frame of a message."""
    match message:
        case Step(outputs):
            body: list[Any] = ["s", [_output_fields(output) for output in outputs]]
        case Add(admissions):
            body = ["a", [[slot, *_request_fields(request)] for slot, request in admissions]]
        case Cancel(keys):
            body = ["c", keys]
        case Hello(version):
            body = ["h", version]
        case Welcome(instance, gate, version):
            body = ["w", version, instance, gate]
        case Bye():
            body = ["b"]
    payload = _encode(body).encode("utf-8", "surrogatepass")
    return _LENGTH.pack(len(payload)) + payload


def decode(payload: bytes | bytearray) -> Message:
    """The message of a frame without its length. Raises ProtocolError."""
    try:
        kind, *rest = json.loads(payload.decode("utf-8", "surrogatepass"))
        match kind:
            case "s":
                return Step(tuple(_output(fields) for fields in rest[0]))
            case "a":
                return Add(tuple((slot, _request(fields)) for slot, *fields in rest[0]))
            case "c":
                return Cancel(tuple(rest[0]))
            case "h":
                return Hello(rest[0])
            case "w":
                return Welcome(version=rest[0], instance=rest[1], gate=rest[2])
            case "b":
                return Bye()
    except (ValueError, TypeError, IndexError) as error:
        raise ProtocolError(f"unreadable message: {error}") from error
    raise ProtocolError(f"unknown kind of message {kind!r}")


class FrameReader:
    """Cuts what a socket brings into messages."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = bytearray()

    def read(self) -> Message | None:
        """The next message, None at the end of the connection, which may come in the middle of a frame."""
        while True:
            if len(self._buffer) >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(self._buffer)
                if length > MAX_FRAME_BYTES:
                    raise ProtocolError(f"a frame of {length} bytes; the limit is {MAX_FRAME_BYTES}")
                end = _LENGTH.size + length
                if len(self._buffer) >= end:
                    payload = self._buffer[_LENGTH.size : end]
                    del self._buffer[:end]
                    return decode(payload)
            try:
                received = self._connection.recv(_READ_BYTES)
            except OSError:
                return None
            if not received:
                return None
            self._buffer += received


def check_version(version: int) -> None:
    """Raises ProtocolError when the other side is of another version."""
    if version != VERSION:
        raise ProtocolError(f"the other side speaks version {version}, this one {VERSION}; use one release for both")


_SAMPLING: Final = tuple(field.name for field in fields(SamplingParameters))


def _output_fields(output: Output) -> list[Any]:
    """As short as it can be: most outputs are one token of a request's only answer."""
    values: list[Any] = [output.key, output.text, output.token_ids]
    if output.finish_reason is None and not output.index and not output.logprobs:
        return values
    values += [output.index, [[one.token_id, one.token, one.logprob, one.top] for one in output.logprobs]]
    if output.finish_reason is not None:
        values += [
            output.finish_reason.value,
            output.num_input_tokens,
            output.num_output_tokens,
            output.unfinished,
            output.error,
            output.invalid,
        ]
    return values


def _output(values: list[Any]) -> Output:
    key, text, token_ids, *more = values
    if not more:
        return Output(key=key, text=text, token_ids=tuple(token_ids))
    index, logprobs, *last = more
    output = Output(
        key=key,
        text=text,
        token_ids=tuple(token_ids),
        index=index,
        logprobs=tuple(_logprob(*one) for one in logprobs),
    )
    if not last:
        return output
    reason, num_input, num_output, unfinished, error, invalid = last
    return replace(
        output,
        finish_reason=FinishReason(reason),
        num_input_tokens=num_input,
        num_output_tokens=num_output,
        unfinished=unfinished,
        error=error,
        invalid=invalid,
    )


def _logprob(token_id: int, token: str, logprob: float, top: list[list[Any]]) -> TokenLogprob:
    return TokenLogprob(token_id, token, logprob, tuple((one[0], one[1], one[2]) for one in top))


def _request_fields(request: Request) -> list[Any]:
    return [
        request.key,
        request.prompt,
        request.messages,
        request.priority,
        request.batch,
        request.batch_size,
        request.deadline,
        [getattr(request.sampling, name) for name in _SAMPLING],
    ]


def _request(values: list[Any]) -> Request:
    key, prompt, messages, priority, batch, batch_size, deadline, sampling = values
    chosen = dict(zip(_SAMPLING, sampling, strict=True))
    for name in ("stop", "stop_token_ids"):
        chosen[name] = tuple(chosen[name])
    chosen["logit_bias"] = tuple((token, bias) for token, bias in chosen["logit_bias"])
    return Request(
        key=key,
        prompt=prompt,
        messages=None if messages is None else tuple(messages),
        sampling=SamplingParameters(**chosen),
        priority=priority,
        batch=batch,
        batch_size=batch_size,
        deadline=deadline,
    )
