"""Bounded strings, lists and instants: what a CRD can price, and what a status write never exceeds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

Item = TypeVar("Item")


def clip_text(limit: int) -> BeforeValidator:
    """A validator that shortens a string to `limit` characters; the last one is then an ellipsis."""

    def clip(value: object) -> object:
        return value[: limit - 1] + "…" if isinstance(value, str) and len(value) > limit else value

    return BeforeValidator(clip)


def clip_items(limit: int) -> BeforeValidator:
    """A validator that keeps the first `limit` items of a list or tuple."""

    def clip(value: object) -> object:
        return list(value)[:limit] if isinstance(value, (list, tuple)) else value

    return BeforeValidator(clip)


def format_time(instant: datetime) -> str:
    """`instant` as Kubernetes writes it: UTC, whole seconds, `2026-01-02T03:04:05Z`."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _aware(instant: datetime) -> datetime:
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


Time = Annotated[
    datetime,
    AfterValidator(_aware),
    PlainSerializer(format_time, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
Word = Annotated[str, clip_text(253), Field(max_length=253)]
Sentence = Annotated[str, clip_text(2048), Field(max_length=2048)]
Message = Annotated[str, clip_text(32768), Field(max_length=32768)]
