"""Quantities of bytes."""

from __future__ import annotations

from typing import Final

from llmservice.api.quantity import parse_quantity

GIB: Final = 2**30


def find_bytes(text: str) -> int | None:
    """The whole bytes that a quantity such as `80Gi`, `40G` or `1e9` writes; None for any other text."""
    size = parse_quantity(text)
    return None if size is None or size < 0 or 0 < size < 1 else int(size)


def format_gib(size: int) -> str:
    """`size` bytes for people: `24.2 GiB`."""
    return f"{size / GIB:.1f} GiB"
