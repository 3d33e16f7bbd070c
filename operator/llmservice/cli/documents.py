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


def read_text(path: Path) -> str:
    """The text of a file, or of standard input for `-`. Ends the command where it cannot be read."""
    if path == STDIN and sys.stdin is None:  # started with it closed
        raise fail("standard input is closed: name a file, or pipe one in")
    try:
        return sys.stdin.read() if path == STDIN else path.read_text(encoding="utf-8")
    except OSError as error:
        raise fail(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise fail(f"{path}: not UTF-8 text (byte {error.start})") from error


def read_documents(path: Path) -> Iterator[Document]:
    """Every YAML document of a file that is not empty."""
    text = read_text(path)
    try:
        loaded = read_yaml(text)
    except YamlTextError as error:
        line = "" if error.line is None else f":{error.line}"
        raise fail(f"{path}{line}: not valid YAML: {error.problem}") from error
    for item in loaded:
        if item is None:
            continue
        if not isinstance(item, dict):
            raise fail(f"{path}: expected an object with apiVersion and kind, found {type(item).__name__}")
        yield Document(str(path), item)


def read_services(paths: list[Path]) -> list[Document]:
    """The LLMServices of some files; other kinds are passed over with a notice. Ends the command if there is none."""
    found: list[Document] = []
    for path in paths:
        for document in read_documents(path):
            if document.manifest.get("kind") == KIND:
                found.append(document)
            else:
                typer.secho(f"{document.label}: not an {KIND}, passed over", fg=typer.colors.YELLOW, err=True)
    if not found:
        raise fail(f"no {KIND} in {', '.join(map(str, paths))}")
    return found
