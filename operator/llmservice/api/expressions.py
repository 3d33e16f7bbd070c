"""CEL outside of the API server: the same expressions, with the functions that Kubernetes adds to the language."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, Final

import cel

from llmservice.api.quantity import is_quantity, parse_quantity


def evaluate(expression: str, variables: Mapping[str, Any]) -> Any:
    """The value of `expression`. Raises ExpressionError where it cannot be evaluated, such as on an absent field."""
    context = cel.Context(variables=dict(variables), functions=dict(_FUNCTIONS))
    try:
        return _compiled(expression).execute(context)
    except (KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
        raise ExpressionError(f"{expression}: {error}") from error


class ExpressionError(ValueError):
    """An expression has no value for the given variables."""


@cache
def _compiled(expression: str) -> Any:
    return cel.compile(expression)


def _is_sorted(items: Any) -> bool:
    """Whether a list of numbers ascends. True for anything else, which the types refuse: CEL must not fail loudly."""
    if not isinstance(items, list) or not all(isinstance(item, int) for item in items):
        return True
    return all(low <= high for low, high in pairwise(items))


def _format(template: str, values: Sequence[Any]) -> str:
    """CEL's `format` for `%s` and `%d`."""
    pieces = template.replace("%d", "%s").split("%s")
    filled = [piece + str(value) for piece, value in zip(pieces, values, strict=False)]
    return "".join(filled) + pieces[-1]


def _quantity(text: Any) -> float:
    """CEL's `quantity`, as a number. Raises ValueError for what is none."""
    number = parse_quantity(text)
    if number is None:
        raise ValueError(f"{text!r} is not a quantity")
    return float(number)


def _compare(one: float, other: float) -> int:
    """CEL's `compareTo`: -1, 0 or 1."""
    return (one > other) - (one < other)


_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "format": _format,
    "compareTo": _compare,
    "isQuantity": is_quantity,
    "quantity": _quantity,
    "isSorted": _is_sorted,
}
