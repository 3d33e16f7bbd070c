"""Conditions: built fresh each pass, with the time of the last transition kept where the status did not change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pydantic import ValidationError

from llmservice.api.reasons import ConditionType, Reason
from llmservice.api.status import Condition, ConditionStatus

ORDER: Final = tuple(ConditionType)


@dataclass(frozen=True)
class Judgement:
    """What one pass says about one condition."""

    type: ConditionType
    status: ConditionStatus
    reason: Reason
    message: str = ""


@dataclass(frozen=True)
class Transition:
    """A condition whose status or reason changed: what an event tells."""

    before: Condition | None
    after: Condition


def true(kind: ConditionType, reason: Reason, message: str = "") -> Judgement:
    """The condition holds."""
    return Judgement(kind, ConditionStatus.TRUE, reason, message)


def false(kind: ConditionType, reason: Reason, message: str = "") -> Judgement:
    """The condition does not hold."""
    return Judgement(kind, ConditionStatus.FALSE, reason, message)


def unknown(kind: ConditionType, reason: Reason = Reason.NOT_EVALUATED, message: str = "") -> Judgement:
    """Whether the condition holds has not been found out."""
    return Judgement(kind, ConditionStatus.UNKNOWN, reason, message)


def read_conditions(status: Mapping[str, Any]) -> dict[ConditionType, Condition]:
    """The conditions in a raw status; those that cannot be read are left out."""
    read: dict[ConditionType, Condition] = {}
    for raw in status.get("conditions") or ():
        try:
            condition = Condition.model_validate(raw)
        except ValidationError:
            continue
        read[condition.type] = condition
    return read


def settle(
    judgements: Iterable[Judgement], before: Mapping[ConditionType, Condition], generation: int, now: datetime
) -> list[Condition]:
    """All conditions in their order. One that nobody judged this time is Unknown."""
    judged = {judgement.type: judgement for judgement in judgements}
    settled = []
    for kind in ORDER:
        judgement = judged.get(kind) or unknown(kind, message="not evaluated yet")
        last = before.get(kind)
        kept = last is not None and last.status == judgement.status
        settled.append(
            Condition(
                type=kind,
                status=judgement.status,
                reason=judgement.reason,
                message=judgement.message,
                observed_generation=generation,
                last_transition_time=last.last_transition_time if last is not None and kept else now,
            )
        )
    return settled


def transitions(before: Mapping[ConditionType, Condition], after: Iterable[Condition]) -> list[Transition]:
    """The conditions whose status or reason is another than before."""
    return [
        Transition(before.get(condition.type), condition)
        for condition in after
        if (last := before.get(condition.type)) is None
        or (last.status, last.reason) != (condition.status, condition.reason)
    ]
