"""What an engine model answers to a Triton request: it takes none, they come from the gate.

A request still has one use. Triton 2.51 looks whether a Python model's process lives only when it has a request for
it, and starts it again only when the model is not decoupled (python_backend `TRITONBACKEND_ModelInstanceExecute`). So
engine models are not decoupled, and a gate that lost an engine sends one request to make Triton look.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def refuse_requests(pb_utils: Any, requests: Sequence[Any]) -> list[Any]:
    """One error response for each request."""
    error = pb_utils.TritonError("this model takes no requests: call the model with the service's name")
    return [pb_utils.InferenceResponse(error=error) for _ in requests]
