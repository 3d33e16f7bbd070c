"""Kubernetes quantities of bytes."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

GIB: Final = 2**30
_QUANTITY: Final = re.compile(r"^\+?(\d+\.?\d*|\.\d+)(?:([KMGTPE]i|[kMGTPE])|([eE][+-]?\d{1,2}))?$")
_DECIMAL: Final = {unit: 1000 ** (power + 1) for power, unit in enumerate("kMGTPE")}
_BINARY: Final = {f"{unit}i": 1024 ** (power + 1) for power, unit in enumerate("KMGTPE")}
_FACTORS: Final = _DECIMAL | _BINARY


def find_bytes(text: str) -> int | None:
    """The whole bytes that a quantity such as `80Gi`, `40G` or `1e9` writes; None for any other text.

    The forms of apimachinery's `resource.Quantity`, without those below one byte.
    """
    match = _QUANTITY.match(text)
    if match is None:
        return None
    number, unit, exponent = match.groups()
    return int(Decimal(number + (exponent or "")) * (_FACTORS[unit] if unit else 1))


def format_gib(size: int) -> str:
    """`size` bytes for people: `24.2 GiB`."""
    return f"{size / GIB:.1f} GiB"
