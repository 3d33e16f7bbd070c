"""`llmservice openai`: the OpenAI-compatible endpoint, the container beside Triton in a pod."""

from __future__ import annotations

import asyncio

import typer

from llmservice.openai.server import run
from llmservice.openai.settings import EndpointSettings
from llmservice.process.logs import configure


def serve_openai(settings: EndpointSettings, log_level: str) -> int:
    """Serves until SIGTERM. Returns the exit code: 0 stopped, 1 not able to serve."""
    configure(log_level)
    try:
        asyncio.run(run(settings))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        typer.secho(f"error: {where}{error.strerror or error}", fg=typer.colors.RED, err=True)
        return 1
    return 0
