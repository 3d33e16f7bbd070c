"""The knobs: what may change while a service serves."""

from __future__ import annotations

from datetime import timedelta

from llmservice.api.duration import Duration
from llmservice.api.schema import ApiModel

SLOT_LOOKAHEAD = 2
"""Slots beyond `maxSequences`: without it throughput fell 5 to 12 % (measured on tritonserver 2.51)."""


class Knobs(ApiModel):
    """One setting of the knobs."""

    max_queue_delay: Duration = timedelta(milliseconds=5)
    engine_instances: int = 1
    slots: int = SLOT_LOOKAHEAD + 1
    replicas: int = 1
