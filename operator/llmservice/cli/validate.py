"""`llmservice validate`: the API's and the renderer's findings on files."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import typer

from llmservice.api.fleet import FleetDefaults
from llmservice.api.reasons import ConditionType
from llmservice.api.validation import Finding, validate
from llmservice.capacity.instances import instance_warnings
from llmservice.capacity.pools import with_built_in_pools
from llmservice.cli.documents import Document, UnreadableError, read_services, read_text
from llmservice.reconcile.intent import Blocked, intend
from llmservice.repository.gate_config import gate_warnings
from llmservice.repository.lint import lint_pbtxt

_UNREADABLE: Final = "unreadable"
_RENDER: Final = "render"
"""Code of what the renderer refuses."""


@dataclass(frozen=True)
class Row:
    """One finding as it is printed."""

    source: str
    severity: str
    code: str
    where: str
    message: str


def validate_services(files: list[Path], *, as_json: bool) -> int:
    """Prints what is wrong with the LLMServices of `files`.

    Returns the exit code: 0 valid, 1 not, 2 when a file could not be read; the others are looked at all the same.
    """
    rows: list[Row] = []
    labels: list[str] = []
    for path in files:
        try:
            documents = read_services(path)
        except UnreadableError as error:
            rows.append(_unreadable(path, error))
            labels.append(str(path))
            continue
        for document in documents:
            findings = validate(document.manifest)
            labels.append(document.label)
            rows += [_row(document.label, "error", finding) for finding in findings.errors]
            rows += [_row(document.label, "warning", finding) for finding in findings.warnings]
            if findings.valid:
                rows += _beyond_the_rules(document)
    return _report(labels, rows, as_json=as_json)


def validate_pbtxt(files: list[Path], *, as_json: bool) -> int:
    """Prints what Triton would refuse or get wrong in some config.pbtxt files. Returns the exit code, as above."""
    rows: list[Row] = []
    for path in files:
        try:
            text = read_text(path)
        except UnreadableError as error:
            rows.append(_unreadable(path, error))
            continue
        rows += [
            Row(str(path), finding.severity, finding.code, f"line {finding.line}" if finding.line else "", finding.text)
            for finding in lint_pbtxt(text, str(path))
        ]
    return _report([str(path) for path in files], rows, as_json=as_json)


def _beyond_the_rules(document: Document) -> list[Row]:
    """What plan and renderer refuse or leave out of a service that the API server would take.

    On the pools that need no fleet.
    """
    fleet = with_built_in_pools(FleetDefaults(built_in_pools=["*"]))
    intent = intend(document.manifest, fleet, b"validate")
    if not isinstance(intent, Blocked):
        left_out = (*gate_warnings(intent.service, intent.plan), *instance_warnings(intent.service, intent.plan))
        return [_row(document.label, "warning", finding) for finding in left_out]
    if intent.plan is not None and intent.plan.problems:
        return [_row(document.label, "error", problem) for problem in intent.plan.problems]
    if intent.condition is ConditionType.SPEC_VALID:
        return [Row(document.label, "error", _RENDER, "", intent.message)]
    return []  # a pool of a fleet's own, or a model that is too large: that is for plan to say


def _unreadable(path: Path, error: UnreadableError) -> Row:
    return Row(str(path), "error", _UNREADABLE, "", str(error))


def _row(label: str, severity: str, finding: Finding) -> Row:
    text = f"{finding.message} {finding.remedy}".strip()
    return Row(label, severity, finding.code, finding.field_path, text)


def _report(labels: list[str], rows: list[Row], *, as_json: bool) -> int:
    failed = any(row.severity == "error" for row in rows)
    code = 2 if any(row.code == _UNREADABLE for row in rows) else int(failed)
    if as_json:
        typer.echo(json.dumps({"valid": not failed, "findings": [asdict(row) for row in rows]}, indent=2))
        return code
    for label in labels:
        mine = [row for row in rows if row.source == label]
        bad = any(row.severity == "error" for row in mine)
        typer.secho(f"{label}: {'invalid' if bad else 'valid'}", fg=typer.colors.RED if bad else typer.colors.GREEN)
        for row in mine:
            color = typer.colors.RED if row.severity == "error" else typer.colors.YELLOW
            typer.secho(f"  {row.severity}", fg=color, nl=False)
            typer.echo(f" {row.where}: {row.message} [{row.code}]" if row.where else f" {row.message} [{row.code}]")
    return code
