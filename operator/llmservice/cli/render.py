"""`llmservice render`: what the operator would make of a file, without a cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
import yaml

from llmservice.api.fleet import FleetDefaults
from llmservice.capacity.pools import with_built_in_pools
from llmservice.cli.documents import Document, fail, services_or_fail
from llmservice.process.settings import StartupError, load_fleet
from llmservice.reconcile.intent import Blocked, intend

PREVIEW_KEY = b"preview"


@dataclass(frozen=True)
class Preview:
    """What one service becomes: files of the Triton repository, and manifests as a list of objects."""

    name: str
    revision: str
    files: Mapping[str, str]
    manifests: tuple[dict[str, Any], ...]


def render_files(
    file: Path, *, output_dir: Path | None, manifests: bool, fleet_file: Path | None, as_json: bool
) -> None:
    """Prints or writes the previews of every service in `file`. Ends the command at the first invalid service."""
    try:
        fleet = with_built_in_pools(load_fleet(fleet_file))
    except StartupError as error:
        raise fail(str(error)) from error
    previews = [_preview(document, fleet, manifests=manifests) for document in services_or_fail(file)]
    if output_dir is not None:
        written = [
            path
            for preview in previews
            for path in _write(preview, output_dir if len(previews) == 1 else output_dir / preview.name)
        ]
        typer.echo(json.dumps({"written": written}, indent=2) if as_json else "\n".join(written))
    elif as_json:
        typer.echo(json.dumps([_as_dict(preview) for preview in previews], indent=2))
    else:
        for preview in previews:
            _print(preview)


def _preview(document: Document, fleet: FleetDefaults, *, manifests: bool) -> Preview:
    intent = intend(document.manifest, fleet, PREVIEW_KEY)
    if isinstance(intent, Blocked):
        raise fail(f"{document.label}: {intent.message}")
    shown = tuple(m for m in intent.workload.manifests if m["kind"] != "Secret") if manifests else ()
    return Preview(intent.service.metadata.name, intent.workload.revision, intent.repository.files, shown)


def _as_dict(preview: Preview) -> dict[str, Any]:
    return {
        "name": preview.name,
        "revision": preview.revision,
        "files": dict(preview.files),
        "manifests": list(preview.manifests),
    }


def _print(preview: Preview) -> None:
    for path, text in preview.files.items():
        typer.secho(f"# {path}", fg=typer.colors.CYAN)
        typer.echo(text)
    if preview.manifests:
        typer.echo(_manifests_yaml(preview), nl=False)


def _write(preview: Preview, folder: Path) -> list[str]:
    """The paths written. Ends the command where one cannot be."""
    texts = {f"repository/{path}": text for path, text in preview.files.items()}
    if preview.manifests:
        texts["manifests.yaml"] = _manifests_yaml(preview)
    targets = {folder / path: text for path, text in texts.items()}
    for target, text in targets.items():
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        except OSError as error:
            raise fail(f"{target}: {error.strerror or error}") from error
    return list(map(str, targets))


def _manifests_yaml(preview: Preview) -> str:
    note = f"# {preview.name}, revision {preview.revision}. Left out: the Secret, whose token only the cluster knows.\n"
    return note + yaml.safe_dump_all(preview.manifests, sort_keys=False, explicit_start=True)
