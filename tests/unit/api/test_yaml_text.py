"""A file means here what it means through kubectl, and what JSON cannot say is refused with its line."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from llmservice.api.yaml_text import MAX_VALUES, YamlTextError, read_yaml

pytestmark = pytest.mark.unit

TENFOLD = [f"{name}: &{name} [{', '.join([f'*{last}'] * 10)}]" for last, name in pairwise("abcdefghi")]
BOMB = "\n".join(["a: &a [x, x, x, x, x, x, x, x, x, x]", *TENFOLD])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 2024-05-01", {"a": "2024-05-01"}),
        ("a: 1:30", {"a": "1:30"}),
        ("a: 0x10", {"a": 16}),
        ("a: 1.5", {"a": 1.5}),
        ("a: 9223372036854775807", {"a": 2**63 - 1}),
        ("1: one", {"1": "one"}),
        ("a: =", {"a": "="}),
        ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
        ("a: &x {k: 1, m: 2}\nb: {<<: *x, k: 3}", {"a": {"k": 1, "m": 2}, "b": {"k": 3, "m": 2}}),
    ],
)
def test_values_are_what_kubectl_sends(text: str, value: Any) -> None:
    assert read_yaml(text) == [value]


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("a: 1\na: 2", 2, "a is written twice in one object, first in line 1"),
        ("a: .nan", 1, ".nan is no number that JSON knows"),
        ("a: -.inf", 1, "-.inf is no number that JSON knows"),
        ("a: 9223372036854775808", 1, "too many digits"),
        ("a: " + "9" * 5000, 1, "too many digits"),
        ("a: &a [*a]", 1, "holds itself"),
        ("? [1]\n: 2", 1, "a key is text"),
        ("a: !!set {b}", 1, "set is no type that JSON knows"),
        ("a: !!python/object:os.system {}", 1, "could not determine a constructor"),
        ('a:\n  - "\\ud800"', 2, "surrogate"),
        ("a: 1\nb: \x00", 2, "the character #x0000 is not allowed"),
        ("a: [b", 1, "expected"),
        ("[" * 5000, None, "nested too deeply"),
        (BOMB, None, f"more than {MAX_VALUES} values"),
    ],
)
def test_what_json_cannot_say_is_refused(text: str, line: int | None, problem: str) -> None:
    with pytest.raises(YamlTextError) as refused:
        read_yaml(text)
    assert problem in refused.value.problem
    assert line is None or refused.value.line == line


def test_a_text_without_documents_holds_none() -> None:
    assert read_yaml("") == []
    assert read_yaml("---\n---\n") == [None, None]
