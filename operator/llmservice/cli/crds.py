"""`llmservice crds`."""

from __future__ import annotations

import typer

from llmservice.api.crd import crd_yaml


def print_crds() -> None:
    """Prints the CRD as YAML."""
    typer.echo(crd_yaml(), nl=False)
