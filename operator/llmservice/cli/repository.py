"""`llmservice repository write`: the init container of every replica."""

from __future__ import annotations

from pathlib import Path

import typer

from llmservice.cli.documents import fail
from llmservice.repository.write import write


def write_repository(rendered: Path, repository: Path) -> None:
    """Writes the repository; the error, if any, is the container's termination message too."""
    try:
        written = write(rendered, repository)
    except (OSError, ValueError) as error:
        raise fail(str(error)) from error
    typer.echo(f"the Triton repository is at {repository}: {len(written.changed)} files written")
