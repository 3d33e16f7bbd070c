"""Kubernetes quantities: `2`, `500m`, `4Gi`, `1e3` (apimachinery's `resource.Quantity`)."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

_FORM: Final = re.compile(
    r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?)(?P<unit>[KMGTPE]i|[numkMGTPE])?", re.ASCII
)
_SMALL: Final = {unit: Decimal(1000) ** -(power + 1) for power, unit in enumerate("mun")}
_DECIMAL: Final = {unit: Decimal(1000) ** (power + 1) for power, unit in enumerate("kMGTPE")}
_BINARY: Final = {f"{unit}i": Decimal(1024) ** (power + 1) for power, unit in enumerate("KMGTPE")}
_UNITS: Final = _SMALL | _DECIMAL | _BINARY


def parse_quantity(value: object) -> Decimal | None:
    """The number that a quantity, or an integer, stands for; None when it is not one."""
    found = _FORM.fullmatch(str(value))
    if found is None or (found["unit"] and "e" in found["number"].lower()):
        return None
    return Decimal(found["number"]) * (_UNITS[found["unit"]] if found["unit"] else 1)


def is_quantity(text: object) -> bool:
    """Whether the API server would take `text` as a quantity."""
    return isinstance(text, str) and parse_quantity(text) is not None
