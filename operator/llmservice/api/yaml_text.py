"""YAML as the API server reads it: only what JSON can say, so that a file means the same here as through kubectl."""

from __future__ import annotations

import math
from typing import Any, Final

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode

MAX_VALUES: Final = 100_000
"""Values of one document, counted where aliases repeat them: a small file could otherwise ask for millions."""
MAX_INTEGER_DIGITS: Final = 19
"""Of a 64-bit integer, which is what the API server reads."""
_MERGE: Final = "tag:yaml.org,2002:merge"


class YamlTextError(ValueError):
    """The text is not what the API server would take. `line` counts from 1 and is None where it is not known."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem if line is None else f"line {line}: {problem}")
        self.problem = problem
        self.line = line


def read_yaml(text: str) -> list[Any]:
    """Every document of `text`, as null, booleans, numbers, strings, lists and dicts with string keys.

    Raises YamlTextError for what is not YAML, for a key written twice in one object, and for what JSON cannot say:
    infinite numbers, integers beyond 64 bits, binary values, objects that hold themselves.
    """
    documents: list[Any] = []
    try:
        loader = _Loader(text)
        while loader.check_node():
            node = loader.get_node()
            if node is not None:
                _count(node, {})
                documents.append(loader.construct_document(node))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlTextError(str(error.problem or error.context), mark.line + 1 if mark else None) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise YamlTextError(f"the character #x{ord(text[error.position]):04x} is not allowed", line) from error
    except RecursionError:
        raise YamlTextError("it is nested too deeply") from None
    return documents


class _Loader(yaml.SafeLoader):
    """Objects and scalars as JSON has them."""


def _mapping(loader: _Loader, node: MappingNode) -> dict[str, Any]:
    loader.flatten_mapping(node)
    return {str(key.value): loader.construct_object(value, deep=True) for key, value in node.value}


def _integer(loader: _Loader, node: ScalarNode) -> int | str:
    written = loader.construct_scalar(node)
    if ":" in written:  # 1:30 is 90 in YAML 1.1, and text for kubectl
        return written
    if len(written) > 2 * MAX_INTEGER_DIGITS + 2 and not written.lower().startswith(("0b", "-0b", "+0b")):
        raise _refused(node, "the number has too many digits")
    try:
        value = loader.construct_yaml_int(node)
    except ValueError:
        return written
    if not -(2**63) <= value < 2**63:
        raise _refused(node, "the number has too many digits")
    return value


def _number(loader: _Loader, node: ScalarNode) -> float | str:
    written = loader.construct_scalar(node)
    if ":" in written:
        return written
    value = float(loader.construct_yaml_float(node))
    if not math.isfinite(value):
        raise _refused(node, f"{written} is no number that JSON knows")
    return value


def _text(loader: _Loader, node: ScalarNode) -> str:
    text = str(loader.construct_scalar(node))
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise _refused(node, "half of a surrogate pair is no character: write the character itself")
    return text


def _no_json(_loader: _Loader, node: Node) -> Any:
    raise _refused(node, f"{node.tag.rpartition(':')[2]} is no type that JSON knows: write text, a list or an object")


def _refused(node: Node, problem: str) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


def _count(node: Node, known: dict[int, int | None]) -> int:
    """Values under `node`, those behind aliases as often as they stand. Refuses too many, endless ones, bad keys."""
    if isinstance(node, ScalarNode):
        return 1
    if id(node) in known:
        counted = known[id(node)]
        if counted is None:
            raise _refused(node, "an alias holds itself")
        return counted
    known[id(node)] = None
    items = _values(node) if isinstance(node, MappingNode) else node.value
    total = 1 + sum(_count(item, known) for item in items)
    if total > MAX_VALUES:
        raise _refused(node, f"more than {MAX_VALUES} values, with those that aliases repeat")
    known[id(node)] = total
    return total


def _values(node: MappingNode) -> list[Node]:
    lines: dict[str, int] = {}
    for key, _ in node.value:
        if not isinstance(key, ScalarNode):
            raise _refused(key, "a key is text, not a list or an object")
        if key.value in lines and key.tag != _MERGE:
            raise _refused(key, f"{key.value} is written twice in one object, first in line {lines[key.value]}")
        lines[key.value] = key.start_mark.line + 1
    return [value for _, value in node.value]


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
_Loader.add_constructor("tag:yaml.org,2002:int", _integer)
_Loader.add_constructor("tag:yaml.org,2002:float", _number)
for _tag in ("str", "timestamp", "value"):  # kubectl keeps a date as the text it is
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _text)
for _tag in ("binary", "omap", "pairs", "set"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _no_json)
