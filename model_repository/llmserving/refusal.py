"""What an engine model answers to a Triton request: it takes none, they come from the gate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def refuse_requests(pb_utils: Any, requests: Sequence[Any]) -> list[Any]:
    """One error response for each request."""
    error = pb_utils.TritonError("this model takes no requests: call the model with the service's name")
    return [pb_utils.InferenceResponse(error=error) for _ in requests]
