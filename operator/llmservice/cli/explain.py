"""`llmservice explain`: what the tuner did, and why, as a story."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import typer
from rich.console import Console
from rich.text import Text

from llmservice.api.bounds import format_time
from llmservice.api.duration import format_duration
from llmservice.api.reasons import ConditionType
from llmservice.api.status import ConditionStatus, KnobsStatus, LLMServiceStatus, TuningDecision, TuningStatus
from llmservice.cli.reading import read_service

_OUTCOMES: Final = {
    "Act": "It just moved a knob",
    "Hold": "It leaves the knobs where they are",
    "Distrust": "It does not trust what is measured, and moves nothing",
    "Observe": "It only observes, and moves nothing",
    "Off": "It is off",
}
_LIMITS: Final = {
    "Compute": "the engine's computing",
    "KVCache": "the cache of keys and values",
    "Slots": "slots",
    "MaxReplicas": "spec.scaling.maxReplicas",
    "FreeAccelerators": "free accelerators in the pool",
    "Objective": "nothing: one request alone is slower than the objective",
}


def explain(name: str, namespace: str | None, context: str | None, kubeconfig: Path | None, *, as_json: bool) -> None:
    """Prints the story of one service's tuning. Ends the command with one clear error where there is no service."""
    service = read_service(name, namespace, context, kubeconfig).service
    status = LLMServiceStatus.model_validate(service.get("status") or {})
    if as_json:
        typer.echo(json.dumps((service.get("status") or {}).get("tuning") or {}, indent=2))
        return
    console = Console()
    for line in story(name, status):
        console.print(line)


def story(name: str, status: LLMServiceStatus) -> Iterator[Text]:
    """The lines of the story: now, what limits it, what was done, what comes next."""
    tuning = status.tuning
    if tuning is None:
        yield Text(
            f"{name}: nothing has been decided yet. The tuner looks every 30 s at services that serve, and only where "
            "spec.tuning.mode is Auto or Observe."
        )
        return
    yield Text(f"{name}: {_OUTCOMES.get(tuning.outcome or '', tuning.outcome or 'no outcome')}.", style="bold")
    if tuning.reason:
        yield Text(f"  {tuning.reason}")
    yield Text(f"In force: {_knobs(status.knobs)}.")
    if _knobs(tuning.proposed) != _knobs(status.knobs):
        yield Text(f"The model would have: {_knobs(tuning.proposed)}.")
    if tuning.canary is not None:
        since = f" since {format_time(tuning.canary.since)}" if tuning.canary.since is not None else ""
        yield Text(f"Replica {tuning.canary.replica} tries another setting{since}: {_knobs(tuning.canary.knobs)}.")
    yield from _limits(tuning)
    yield from _trust(status)
    if tuning.decisions:
        yield Text("What was decided, newest first:", style="bold")
        for decision in tuning.decisions:
            yield from _decision(decision)
    if tuning.next_action_time is not None:
        yield Text(f"No knob moves before {format_time(tuning.next_action_time)}.")


def _limits(tuning: TuningStatus) -> Iterator[Text]:
    if tuning.headroom is not None:
        room = f"{tuning.headroom:.0%} of what the objectives allow is unused"
        yield Text(room[0].upper() + room[1:] + "." if tuning.headroom >= 0 else "It is asked for more than it can do.")
    limit = _LIMITS.get(tuning.limiting_resource or "")
    if limit:
        yield Text(f"To take more, this would have to grow: {limit}.")
    for objective in tuning.infeasible:
        yield Text(f"No setting reaches {objective}", style="yellow")


def _trust(status: LLMServiceStatus) -> Iterator[Text]:
    trusted = next((one for one in status.conditions if one.type is ConditionType.SIGNALS_TRUSTED), None)
    if trusted is None or trusted.status is ConditionStatus.TRUE:
        return
    style = "yellow" if trusted.status is ConditionStatus.UNKNOWN else "red"
    yield Text(f"Signals ({trusted.reason}): {trusted.message}", style=style)


def _decision(decision: TuningDecision) -> Iterator[Text]:
    what = ", ".join(decision.changes) or decision.outcome
    yield Text(f"  {format_time(decision.time)}  {what}")
    yield Text(f"    because {decision.reason}")
    if decision.inputs:
        yield Text(f"    figures: {', '.join(decision.inputs)}", style="dim")


def _knobs(knobs: KnobsStatus | None) -> str:
    if knobs is None:
        return "no knobs yet"
    parts = [
        f"delay {format_duration(knobs.max_queue_delay)}" if knobs.max_queue_delay is not None else "",
        _count(knobs.engine_instances, "engine instance"),
        _count(knobs.slots, "slot"),
        _count(knobs.replicas, "replica"),
    ]
    return ", ".join(filter(None, parts))


def _count(number: int | None, word: str) -> str:
    return "" if number is None else f"{number} {word}{'' if number == 1 else 's'}"
