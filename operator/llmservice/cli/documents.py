"""Reads manifests from files and standard input, with errors that name the file and the line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from llmservice.api.service import KIND
from llmservice.api.yaml_text import YamlTextError, read_yaml

STDIN = Path("-")
_LISTS = ("List", f"{KIND}List")


@dataclass(frozen=True)
class Document:
    """One YAML document: where it stands and what it says."""

    source: str
    manifest: dict[str, Any]

    @property
    def label(self) -> str:
        """`file.yaml: LLMService/chat`."""
        metadata = self.manifest.get("metadata") or {}
        name = metadata.get("name", "(no name)") if isinstance(metadata, dict) else "(no name)"
        return f"{self.source}: {self.manifest.get('kind', '(no kind)')}/{name}"


def fail(message: str) -> typer.Exit:
    """Prints one clear error and gives what to raise to end the command with exit code 2."""
    typer.secho(f"error: {message}", fg=typer.colors.RED, err=True)
    return typer.Exit(2)


class UnreadableError(Exception):
    """A file that cannot be read, or holds no manifests. Says which file, and where in it."""


def read_text(path: Path) -> str:
    """The text of a file, or of standard input for `-`. Raises UnreadableError."""
    if path == STDIN and sys.stdin is None:  # started with it closed
        raise UnreadableError("standard input is closed: name a file, or pipe one in")
    try:
        return sys.stdin.read() if path == STDIN else path.read_text(encoding="utf-8")
    except OSError as error:
        raise UnreadableError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UnreadableError(f"{path}: not UTF-8 text (byte {error.start}): unpack it, or save it as UTF-8") from error


def read_documents(path: Path) -> Iterator[Document]:
    """Every object of a file; those of a `List` one by one, as kubectl takes them. Raises UnreadableError."""
    text = read_text(path)
    try:
        loaded = read_yaml(text)
    except YamlTextError as error:
        line = "" if error.line is None else f":{error.line}"
        raise UnreadableError(f"{path}{line}: not valid YAML: {error.problem}") from error
    for item in loaded:
        yield from _objects(path, item)


def _objects(path: Path, item: object) -> Iterator[Document]:
    if item is None:
        return
    if not isinstance(item, dict):
        raise UnreadableError(f"{path}: expected an object with apiVersion and kind, found {type(item).__name__}")
    if item.get("kind") in _LISTS and isinstance(item.get("items"), list):
        for member in item["items"]:
            yield from _objects(path, member)
    else:
        yield Document(str(path), item)


def read_services(path: Path) -> list[Document]:
    """The LLMServices of a file; other kinds are passed over with a notice. Raises UnreadableError if there is none."""
    found: list[Document] = []
    for document in read_documents(path):
        if document.manifest.get("kind") == KIND:
            found.append(document)
        else:
            typer.secho(f"{document.label}: not an {KIND}, passed over", fg=typer.colors.YELLOW, err=True)
    if not found:
        raise UnreadableError(f"no {KIND} in {path}")
    return found


def services_or_fail(path: Path) -> list[Document]:
    """As `read_services`; ends the command where the file cannot be read."""
    try:
        return read_services(path)
    except UnreadableError as error:
        raise fail(str(error)) from error
