"""What can be promised."""

from __future__ import annotations

from enum import StrEnum


class Metric(StrEnum):
    """What an objective is about; the names are the fields of `spec.objectives`."""

    LATENCY = "latency"
    TIME_TO_FIRST_TOKEN = "timeToFirstToken"  # noqa: S105 - a field's name
    PER_OUTPUT_TOKEN = "perOutputToken"  # noqa: S105 - a field's name
