"""What may be asked of an engine model: how many slots its instances have, and another count, while all of them serve.

Requests for tokens come from the gate over its socket, so the one input an engine model has is free for this. Triton
guards its own control calls by a token and does not guard inference, so the token comes along and is checked here. The
server hands it to its model processes in the environment; where there is none, Triton's control calls are open, too.
"""

from __future__ import annotations

import hmac
import json
import os
from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np

from llmserving.slots import SlotsError

TENSOR: Final = "control"
"""Input and output: one JSON object each."""
TOKEN_VARIABLE: Final = "TRITON_TOKEN"  # noqa: S105 -- the name of a variable


class Controlled(Protocol):
    """What is controlled."""

    def slot_counts(self) -> dict[str, int]:
        """Slots of each engine instance of the service."""

    def set_slots(self, count: int) -> None:
        """Gives every engine instance so many. Raises SlotsError, OSError."""


class RefusedError(Exception):
    """What was asked cannot be done; the message says why."""


def answer_control(pb_utils: Any, requests: Sequence[Any], engine: Controlled) -> list[Any]:
    """One response for each request: the slots of every instance, after they were set where the request says so."""
    return [_answer(pb_utils, request, engine) for request in requests]


def _answer(pb_utils: Any, request: Any, engine: Controlled) -> Any:
    tensor = pb_utils.get_input_tensor_by_name(request, TENSOR)
    try:
        if tensor is None:
            raise RefusedError("this model takes no requests: call the model with the service's name")
        text = json.dumps(controlled(tensor.as_numpy().reshape(-1)[0], engine, os.environ.get(TOKEN_VARIABLE, "")))
    except RefusedError as error:
        return pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error)))
    return pb_utils.InferenceResponse([pb_utils.Tensor(TENSOR, np.array([text.encode()], dtype=np.object_))])


def controlled(asked: bytes, engine: Controlled, token: str) -> dict[str, Any]:
    """Does what `asked`, a JSON object with `token` and perhaps `slots`, says. Raises RefusedError."""
    try:
        request = json.loads(asked)
        given, slots = str(request.get("token", "")), request.get("slots")
    except (ValueError, AttributeError):
        raise RefusedError(f"{TENSOR}: must be a JSON object") from None
    if not hmac.compare_digest(given.encode(), token.encode()):
        raise RefusedError(f"{TENSOR}: the token is not this server's")
    if slots is not None:
        if isinstance(slots, bool) or not isinstance(slots, int):
            raise RefusedError(f"slots: must be a whole number, not {slots!r}")
        try:
            engine.set_slots(slots)
        except (SlotsError, OSError) as error:
            raise RefusedError(f"slots: {error}") from None
    return {"slots": engine.slot_counts()}
