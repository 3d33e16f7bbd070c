"""Which transitions are worth an Event, and its words. Pure: events tell of changes, never of states."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from llmservice.api.reasons import ConditionType, Reason
from llmservice.api.status import ConditionStatus
from llmservice.kube.events import EventType
from llmservice.reconcile.conditions import Transition

_CALM: Final = {
    Reason.SCALED_TO_ZERO,
    Reason.DELETING,
    Reason.STARTING,
    Reason.PULLING_IMAGE,
    Reason.FETCHING_WEIGHTS,
    Reason.LOADING_MODEL,
}
"""Reasons for not being ready that are nobody's fault."""


@dataclass(frozen=True)
class Told:
    """One Event to record."""

    reason: str
    message: str
    kind: EventType


def tell(transitions: Iterable[Transition]) -> list[Told]:
    """The Events for what changed in one pass: readiness, trouble beside it, and the ends of an update."""
    changed = {transition.after.type: transition for transition in transitions}
    told = []
    ready = changed.get(ConditionType.READY)
    if ready is not None:
        serves = ready.after.status is ConditionStatus.TRUE
        kind = EventType.NORMAL if serves or ready.after.reason in _CALM else EventType.WARNING
        told.append(Told(ready.after.reason.value, ready.after.message, kind))
    degraded = changed.get(ConditionType.DEGRADED)
    if degraded is not None and degraded.after.status is ConditionStatus.TRUE:
        same = ready is not None and ready.after.reason == degraded.after.reason
        if not same:
            told.append(Told(degraded.after.reason.value, degraded.after.message, EventType.WARNING))
    progress = changed.get(ConditionType.PROGRESSING)
    if progress is not None:
        before = progress.before.reason if progress.before else None
        if Reason.UPDATING in {progress.after.reason, before}:
            told.append(Told(progress.after.reason.value, progress.after.message, EventType.NORMAL))
    return told
