"""Where each field of a `config.pbtxt` is written, found without a parser, so also in text that does not parse."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(
    r"""(?P<skip>\#[^\n]*|\s+)|(?P<string>"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?)"""
    r"""|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<open>[{<])|(?P<close>[}>])|(?P<other>[-+.0-9A-Za-z_]+|.)"""
)


@dataclass(frozen=True)
class WrittenField:
    """One field as written: its path of names, its line (from 1), and the span of its text, block included.

    `block` tells `name { … }` from `name: value`. An `element` is one of the messages in `name [ { … }, { … } ]`.
    """

    path: tuple[str, ...]
    line: int
    start: int
    end: int
    block: bool
    element: bool = False

    @property
    def name(self) -> str:
        """The field's own name."""
        return self.path[-1]


@dataclass(frozen=True)
class _Open:
    """A block whose end is still to come; `path` is empty for a brace that no name stands before."""

    path: tuple[str, ...]
    start: int
    element: bool


def written_fields(text: str) -> list[WrittenField]:
    """Every field in `text`, outer before inner. Unbalanced braces close at the end of the text."""
    tokens = [match for match in _TOKEN.finditer(text) if match.lastgroup != "skip"]
    stack: list[_Open] = []
    fields: list[WrittenField] = []
    last, expects_block = _Open((), 0, element=False), False
    for index, token in enumerate(tokens):
        following = tokens[index + 1].group() if index + 1 < len(tokens) else ""
        if token.lastgroup == "name" and following in (":", "{", "<", "["):
            path = (*stack[-1].path, token.group()) if stack else (token.group(),)
            value = index + 2 if following == ":" else index + 1
            last, expects_block = _Open(path, token.start(), element=False), _is(tokens, value, "{", "<")
            if not expects_block and not (_is(tokens, value, "[") and _is(tokens, value + 1, "{", "<")):
                fields.append(_field(text, last, _end_of_value(tokens, value, len(text)), block=False))
        elif token.lastgroup == "open":
            stack.append(last if expects_block else _Open(last.path, token.start(), element=True))
            expects_block = False
        elif token.lastgroup == "close" and stack:
            last = stack.pop()
            fields.append(_field(text, last, token.end(), block=True))
    fields += [_field(text, open_field, len(text), block=True) for open_field in stack]
    return sorted((field for field in fields if field.path), key=lambda field: (field.start, -field.end))


def replace_field(text: str, field: WrittenField, by: str = "") -> str:
    """`text` with `by` in the place of `field`, followed by its line ends, so that lines keep their numbers."""
    by = by or ("{ }" if field.element else "")
    return text[: field.start] + by + "\n" * text.count("\n", field.start, field.end) + " " + text[field.end :]


def innermost_at(fields: list[WrittenField], text: str, line: int, column: int) -> WrittenField | None:
    """The shortest field around a position (from 1); the shortest on its line where none is."""
    offset = sum(len(earlier) for earlier in text.splitlines(keepends=True)[: line - 1]) + column - 1
    around = [field for field in fields if field.start <= offset <= field.end]
    around = around or [field for field in fields if field.line == line]
    return min(around, key=lambda field: field.end - field.start, default=None)


def _is(tokens: list[re.Match[str]], index: int, *texts: str) -> bool:
    """Whether the token at `index` exists and is one of `texts`."""
    return index < len(tokens) and tokens[index].group() in texts


def _end_of_value(tokens: list[re.Match[str]], index: int, length: int) -> int:
    """Where a scalar, or a list of scalars, ends."""
    if index >= len(tokens):
        return length
    if tokens[index].group() != "[":
        return tokens[index].end()
    closing = (token for token in tokens[index:] if token.group() == "]")
    return next((token.end() for token in closing), length)


def _field(text: str, open_field: _Open, end: int, *, block: bool) -> WrittenField:
    line = text.count("\n", 0, open_field.start) + 1
    return WrittenField(open_field.path, line, open_field.start, end, block, open_field.element)
