from __future__ import annotations

import pytest

from llmservice.api.expressions import ExpressionError, evaluate
from llmservice.api.quantity import is_quantity

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ('"%d of %s".format([self.n, "x"])', "3 of x"),
        ('"plain".format([])', "plain"),
        ("self.list.isSorted()", True),
        ("[2, 1].isSorted()", False),
        ("isQuantity('4Gi')", True),
        ("has(self.absent) || self.n == 3", True),
    ],
)
def test_the_functions_of_kubernetes_are_there(expression: str, value: object) -> None:
    assert evaluate(expression, {"self": {"n": 3, "list": [1, 2]}}) == value


@pytest.mark.parametrize("expression", ["self.absent > 1", "self.list[9] == 1", "self.n + 'x' == 'y'", "duration('x')"])
def test_an_expression_without_a_value_says_so(expression: str) -> None:
    with pytest.raises(ExpressionError):
        evaluate(expression, {"self": {"n": 3, "list": [1, 2]}})


@pytest.mark.parametrize("text", ["0", "2", "500m", "1.5Gi", "4Gi", "1e3", "1E3", "10k", "5M", "0.5"])
def test_quantities(text: str) -> None:
    assert is_quantity(text)


@pytest.mark.parametrize("text", ["", "4GB", "4 Gi", "Gi", "1ki", "1K", "four", 4, None])
def test_no_quantities(text: object) -> None:
    assert not is_quantity(text)
