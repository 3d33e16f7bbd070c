"""Errors in OpenAI's form, and what Triton and the gate say translated into them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

RETRY_SECONDS: Final = 1
"""`Retry-After` of what may be asked again: a full queue moves with every answer that ends."""

_PARAMETER: Final = re.compile(r"^(?P<name>[a-z][a-z_]*)(?P<rest>(?:\[[^\]]+\]|\.\w+)*): ")
_CLIENTS_NAMES: Final = {"priority_level": "priority", "deadline_ms": "timeout", "text_input": "prompt"}
_QUEUE_FULL: Final = "Exceeds maximum queue size"
_WAITED_TOO_LONG: Final = "Request timeout expired"
_NO_MODEL: Final = "unknown model"
_TOO_LONG: Final = "maxLength"
_GATES_KIND: Final = re.compile(r"^(?P<kind>INVALID_ARG|UNAVAILABLE|INTERNAL): ")
_REQUEST_ID: Final = re.compile(r"^\[request id: [^\]]*\] ")


@dataclass(eq=False)
class ApiError(Exception):
    """A request that is answered with an error: `status` over HTTP, the rest in the body.

    `param` is the field at fault as the client wrote it. `retry_after` is in seconds.
    """

    status: int
    message: str
    kind: str
    code: str | None = None
    param: str | None = None
    retry_after: int | None = None

    def body(self) -> dict[str, Any]:
        """The JSON that OpenAI's clients read: https://platform.openai.com/docs/guides/error-codes."""
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}

    def headers(self) -> dict[str, str]:
        """`Retry-After` where asking again helps, and how to authenticate where that is missing."""
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        return headers | ({"WWW-Authenticate": "Bearer"} if self.status == 401 else {})


def invalid(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """The request itself is at fault."""
    return ApiError(400, message, "invalid_request_error", code, param)


def unauthorized() -> ApiError:
    """No API key, or one that is not known."""
    return ApiError(
        401,
        "this service needs an API key that it knows: send it as 'Authorization: Bearer KEY'",
        "invalid_request_error",
        "invalid_api_key",
    )


def model_not_found(asked: str, served: tuple[str, ...]) -> ApiError:
    """A model of another name."""
    return ApiError(
        404,
        f"the model {asked!r} does not exist: use {' or '.join(map(repr, served))}",
        "invalid_request_error",
        "model_not_found",
        "model",
    )


def too_large(limit: int) -> ApiError:
    """More bytes than a request may have."""
    return ApiError(
        413,
        f"the request has more than {limit} bytes: send a shorter one, or raise spec.service.openAI.maxRequestSize",
        "invalid_request_error",
        "request_too_large",
    )


def queue_full() -> ApiError:
    """Every place in the queue of this priority level is taken."""
    return ApiError(
        429,
        "too many requests wait already: try again later",
        "rate_limit_error",
        "queue_full",
        retry_after=RETRY_SECONDS,
    )


def unavailable(message: str, code: str = "unavailable") -> ApiError:
    """Nothing computes at the moment."""
    return ApiError(503, message, "service_unavailable_error", code, retry_after=RETRY_SECONDS)


def deadline_exceeded(message: str = "the request was not answered within its time") -> ApiError:
    """The time of the request, or that of its queue, was over before its answer was whole."""
    return ApiError(504, message, "timeout_error", "deadline_exceeded")


def internal(message: str) -> ApiError:
    """A fault of the service."""
    return ApiError(500, message, "server_error", "internal_error")


def of_triton(code: str, message: str) -> ApiError:
    """What Triton or the gate answered: `code` is the name of a gRPC status, empty for an error inside a stream.

    There the gate puts the kind before its words. Triton refuses some requests before a model sees them, with words
    only (core `scheduler_utils.cc`, `dynamic_batch_scheduler.cc`, `server.cc`): these are told by their words.
    """
    text = _REQUEST_ID.sub("", message).strip()
    if not code and (found := _GATES_KIND.match(text)):
        code, text = found["kind"], text[found.end() :]
    if _QUEUE_FULL in text or code == "RESOURCE_EXHAUSTED":
        return queue_full()
    if _WAITED_TOO_LONG in text or code == "DEADLINE_EXCEEDED":
        return deadline_exceeded("the request waited in the queue for longer than it may")
    if _NO_MODEL in text:
        return unavailable("the model is not ready: it is being loaded, or this replica is stopping", "model_not_ready")
    if code in ("INVALID_ARG", "INVALID_ARGUMENT"):
        return _invalid_by_gate(text)
    if code in ("UNAVAILABLE", "CANCELLED"):
        return unavailable(text or "the engine is not there")
    return internal(text or "the engine failed")


def _invalid_by_gate(text: str) -> ApiError:
    """The gate names its own field first: said with the client's name for it."""
    found = _PARAMETER.match(text)
    param = None
    if found:
        param = _CLIENTS_NAMES.get(found["name"], found["name"]) + found["rest"]
        text = f"{param}: {text[found.end() :]}"
    return invalid(text, param, "context_length_exceeded" if _TOO_LONG in text else None)
