"""Kubernetes quantities: `2`, `500m`, `4Gi`."""

from __future__ import annotations

import re
from typing import Final

_QUANTITY: Final = re.compile(r"^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+|[kMGTPE]i?|Ki|[numKk]?)$")


def is_quantity(text: object) -> bool:
    """Whether the API server would take `text` as a quantity."""
    return isinstance(text, str) and bool(_QUANTITY.match(text)) and not text.endswith(("ki", "K"))
