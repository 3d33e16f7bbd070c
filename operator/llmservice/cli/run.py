"""`llmservice run`: a service on this host, without Kubernetes."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import typer

from llmservice.cli.documents import STDIN, Document, fail, services_or_fail
from llmservice.local.edit_follower import EditFollower
from llmservice.local.errors import LocalError
from llmservice.local.host import memory_bytes, require_serving
from llmservice.local.installation import default_cache
from llmservice.local.intent import Host, Intent, InvalidServiceError, intend
from llmservice.local.overrides import Overrides
from llmservice.local.replica import Ports, Replica
from llmservice.local.run_folders import Folders, folders
from llmservice.local.screen import Screen
from llmservice.local.session import Session
from llmservice.local.watched_file import WatchedFile
from llmservice.local.weights import weights_folder
from llmservice.process.settings import StartupError, load_fleet
from llmservice.repository.layout import Paths


def run_service(
    file: Path,
    overrides: Overrides,
    ports: tuple[int | None, int | None, int | None, int | None],
    fleet_file: Path | None,
    log: Path | None,
    python: Path | None,
    token_file: Path | None,
) -> int:
    """Runs the one LLMService in `file` until Ctrl-C. Returns the exit code: 0 stopped, 1 not valid or not able to."""
    document = _only_service(file)
    try:
        fleet = load_fleet(fleet_file)
    except StartupError as error:
        raise fail(str(error)) from error
    try:
        with folders() as places:
            draft = Host(fleet, memory_bytes(), Paths(str(places.run), ""))
            first = intend(overrides.apply(document.manifest), draft)
            weights = weights_folder(first.service.spec.model.source, default_cache())
            host = Host(fleet, draft.memory_bytes, Paths(str(places.run), str(weights)))
            chosen = Ports.choose(*ports)
            return _run(file, document, overrides, host, places, chosen, log, weights, python, token_file)
    except InvalidServiceError as error:
        typer.secho(f"{document.label}: invalid", fg=typer.colors.RED)
        for finding in error.findings:
            typer.echo(f"  error {finding}")
    except LocalError as error:
        typer.secho(f"error: {error}", fg=typer.colors.RED, err=True)
    except OSError as error:  # a folder, cache or log that cannot be written
        where = f"{error.filename}: " if error.filename else ""
        typer.secho(f"error: {where}{error.strerror or error}", fg=typer.colors.RED, err=True)
    return 1


def _run(
    file: Path,
    document: Document,
    overrides: Overrides,
    host: Host,
    places: Folders,
    ports: Ports,
    log: Path | None,
    weights: Path,
    python: Path | None,
    token_file: Path | None,
) -> int:
    def read() -> Intent:
        try:
            return intend(overrides.apply(_only_service(file).manifest), host)
        except typer.Exit as error:  # which has told why
            raise LocalError("the file cannot be read") from error

    intent = intend(overrides.apply(document.manifest), host)
    serving = require_serving(intent.service.spec.engine.backend, python)
    typer.secho(f"{document.label}: valid", fg=typer.colors.GREEN)
    for warning in intent.warnings:
        typer.secho("  warning", fg=typer.colors.YELLOW, nl=False)
        typer.echo(f" {warning}")
    for field, option in overrides.options().items():
        typer.echo(f"  {field} is {option.partition(' ')[2]}, by {option}")
    screen = Screen(sys.stdout)
    replica = Replica(places, ports, log or places.work / "tritonserver.log", serving)
    if token_file is not None:
        replica.write_token(token_file)
    session = Session(
        follower=EditFollower(intent, read, host, screen, asyncio.Event()),
        replica=replica,
        screen=screen,
        weights=weights,
        file=None if file == STDIN else WatchedFile(file),
    )
    asyncio.run(session.run())
    return 0


def _only_service(file: Path) -> Document:
    documents = services_or_fail(file)
    if len(documents) > 1:
        names = ", ".join(document.label.rpartition("/")[2] for document in documents)
        raise fail(f"{file} holds {len(documents)} LLMServices ({names}): write the one to run into a file of its own")
    return documents[0]
