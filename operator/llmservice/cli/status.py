"""`llmservice status`: how a service is, for a person."""

from __future__ import annotations

import json
from pathlib import Path

import typer
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from llmservice.api.duration import format_duration
from llmservice.api.status import ConditionStatus, LLMServiceStatus
from llmservice.cli.reading import read_service
from llmservice.kube.events import seen_at
from llmservice.kube.resources import Manifest

RECENT_EVENTS = 8
_COLORS = {ConditionStatus.TRUE: "green", ConditionStatus.FALSE: "red", ConditionStatus.UNKNOWN: "yellow"}
_BAD_WHEN_TRUE = {"Degraded", "Progressing"}


def show_status(
    name: str, namespace: str | None, context: str | None, kubeconfig: Path | None, *, as_json: bool
) -> None:
    """Prints the status of one service. Ends the command with one clear error where there is none."""
    found = read_service(name, namespace, context, kubeconfig)
    events = found.events[-RECENT_EVENTS:]
    if as_json:
        typer.echo(json.dumps({"status": found.service.get("status") or {}, "events": events}, indent=2))
    else:
        Console().print(status_view(found.service, events))


def status_view(service: Manifest, events: list[Manifest]) -> Group:
    """The whole page: headline, conditions, knobs, start-up, revisions, warnings, events."""
    status = LLMServiceStatus.model_validate(service.get("status") or {})
    metadata = service["metadata"]
    parts: list[Text | Table] = [_headline(f"{metadata.get('namespace', 'default')}/{metadata['name']}", status)]
    if (status.observed_generation or 0) < metadata.get("generation", 0):
        parts.append(Text("The operator has not yet seen the latest spec.", style="yellow"))
    parts.append(_conditions(status))
    parts += [Text(line) for line in (_knobs(status), _signals(status), _startup(status)) if line]
    parts += [_revisions(status)] if len(status.revisions) > 1 else []
    parts += [Text(f"warning: {warning}", style="yellow") for warning in status.warnings]
    parts += [_events(events)] if events else []
    return Group(*parts)


def _headline(key: str, status: LLMServiceStatus) -> Text:
    line = Text(f"{key}: ", style="bold")
    line.append(status.summary or "not seen by the operator yet")
    details = [
        f"{status.replicas_summary} replicas" if status.replicas_summary else "",
        status.model or "",
        f"pool {status.pool}" if status.pool else "",
        f"revision {status.revision.name}" if status.revision else "",
    ]
    line.append("  " + ", ".join(filter(None, details)), style="dim")
    return line


def _conditions(status: LLMServiceStatus) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("CONDITION", "STATUS", "REASON", "MESSAGE"):
        table.add_column(column, overflow="fold")
    for condition in status.conditions:
        color = _COLORS[condition.status]
        if condition.type in _BAD_WHEN_TRUE and condition.status is not ConditionStatus.UNKNOWN:
            color = "green" if condition.status is ConditionStatus.FALSE else "yellow"
        table.add_row(condition.type, Text(condition.status, style=color), condition.reason, condition.message)
    return table


def _knobs(status: LLMServiceStatus) -> str:
    knobs = status.knobs
    if knobs is None:
        return ""
    delay = format_duration(knobs.max_queue_delay) if knobs.max_queue_delay is not None else "-"
    return (
        f"knobs: delay {delay}, engine instances {knobs.engine_instances}, "
        f"slots {knobs.slots}, replicas {knobs.replicas}"
    )


def _signals(status: LLMServiceStatus) -> str:
    signals = status.signals
    if signals is None:
        return ""
    parts = [
        f"queue {signals.queue_depth:g}" if signals.queue_depth is not None else "",
        f"TTFT p99 {format_duration(signals.time_to_first_token_p99)}" if signals.time_to_first_token_p99 else "",
        f"{signals.tokens_per_second:g} tokens/s" if signals.tokens_per_second is not None else "",
    ]
    shown = ", ".join(filter(None, parts))
    return f"signals: {shown} (from {signals.source or 'nowhere yet'})" if shown else ""


def _startup(status: LLMServiceStatus) -> str:
    phases = status.startup.phases if status.startup else []
    return (
        "start: "
        + ", ".join(
            f"{phase.name} {phase.seconds:g} s" if phase.seconds is not None else f"{phase.name} …" for phase in phases
        )
        if phases
        else ""
    )


def _revisions(status: LLMServiceStatus) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("REVISION", "READY", "IMAGE"):
        table.add_column(column, overflow="fold")
    for revision in status.revisions:
        mark = " (wanted)" if revision.current else ""
        table.add_row(revision.name + mark, f"{revision.ready_replicas}/{revision.replicas}", revision.image)
    return table


def _events(events: list[Manifest]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("SEEN", "TYPE", "EVENT", "MESSAGE"):
        table.add_column(column, overflow="fold")
    for event in events:
        table.add_row(seen_at(event), event.get("type", ""), event.get("reason", ""), event.get("message", ""))
    return table
