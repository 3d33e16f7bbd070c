"""What people see of the tuner: its status, and whether the signals can be trusted. Pure.

Figures inside sentences move with every window. A sentence is kept as long as the decision behind it is the same, so
that an unchanged decision is not written again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from llmservice.api.knobs import Knobs
from llmservice.api.reasons import ConditionType, Reason
from llmservice.api.status import CanaryStatus, KnobsStatus, TuningDecision, TuningStatus
from llmservice.reconcile.conditions import Judgement, false, true, unknown
from llmservice.signals.watch import Looked
from llmservice.tuning.decision import Decision, Outcome
from llmservice.tuning.interruption import on_trial
from llmservice.tuning.measured import Validity
from llmservice.tuning.settings import Settings
from llmservice.tuning.state import PastDecision, State

_FIGURES: Final = re.compile(r"[0-9.]+")
HEADROOM_STEP: Final = 0.1
"""Headroom is shown in tenths: finer it would be noise, and a write each window."""


@dataclass(frozen=True)
class Seen:
    """The tuner's part of the status, and the condition `SignalsTrusted`."""

    status: TuningStatus
    trusted: Judgement
    told: str = ""
    """What was just changed, in words, for an Event; empty where nothing was."""


def seen(decision: Decision, state: State, looked: Looked, settings: Settings, before: Seen | None) -> Seen:
    """What to show after a window."""
    status = TuningStatus(
        mode=settings.mode.value,
        outcome=decision.outcome.value,
        reason=decision.reason,
        proposed=_knobs(decision.proposed),
        headroom=_tenths(decision.headroom),
        limiting_resource=decision.limiting.value,
        infeasible=[f"{one.objective.words}: {one.reason}" for one in decision.infeasible],
        next_action_time=_instant(decision.next_action_at),
        canary=_canary(state, settings, decision.knobs),
        decisions=[_past(one) for one in reversed(state.decisions)],
    )
    if before is not None and _essence(status) == _essence(before.status):
        status = before.status
    told = decision.reason if decision.actions and decision.outcome is Outcome.ACT else ""
    return Seen(status, _kept(_trusted(decision, looked), before), told)


def _canary(state: State, settings: Settings, knobs: Knobs) -> CanaryStatus | None:
    found = on_trial(state.trial, settings, knobs)
    if found is None or state.trial is None:
        return None
    pod, own = found
    return CanaryStatus(replica=pod, knobs=_setting(own), since=_instant(state.trial.at))


def _trusted(decision: Decision, looked: Looked) -> Judgement:
    kind = ConditionType.SIGNALS_TRUSTED
    if looked.fault:
        return false(kind, Reason.SIGNALS_MISSING, f"{looked.fault}. The knobs stay where they are.")
    if looked.signals.contradictions:
        text = "; ".join(looked.signals.contradictions)
        return false(kind, Reason.SIGNALS_CONTRADICT, f"{text}. The knobs stay where they are.")
    if not decision.trusted:
        return false(kind, Reason.SIGNALS_MISSING, f"{decision.distrust or decision.reason}")
    if looked.signals.arrivals.validity in (Validity.MISSING, Validity.STALE):
        return unknown(kind, Reason.NOT_EVALUATED, "there has not been a whole window yet")
    return true(kind, Reason.SIGNALS_AGREE)


def _kept(judgement: Judgement, before: Seen | None) -> Judgement:
    """The judgement before, where only its words' figures moved."""
    if before is None:
        return judgement
    last = before.trusted
    same = (last.type, last.status, last.reason) == (judgement.type, judgement.status, judgement.reason)
    return last if same and _words(last) == _words(judgement) else judgement


def _words(judgement: Judgement) -> str:
    """What it says, without figures."""
    return _FIGURES.sub("", judgement.message)


def _essence(status: TuningStatus) -> object:
    """What of it is news: all but the sentence's figures and the time of the next action."""
    return status.model_copy(update={"reason": "", "next_action_time": None})


def _past(one: PastDecision) -> TuningDecision:
    return TuningDecision(
        time=datetime.fromtimestamp(one.at, UTC),
        outcome=one.outcome,
        reason=one.reason,
        changes=list(one.changes),
        inputs=[f"{name}={value:g}" for name, value in one.inputs],
    )


def _knobs(knobs: Knobs) -> KnobsStatus:
    return _setting(knobs).model_copy(update={"replicas": knobs.replicas})


def _setting(knobs: Knobs) -> KnobsStatus:
    """What one replica has of the knobs."""
    return KnobsStatus(
        max_queue_delay=knobs.max_queue_delay, engine_instances=knobs.engine_instances, slots=knobs.slots
    )


def _tenths(value: float | None) -> float | None:
    return None if value is None else round(round(value / HEADROOM_STEP) * HEADROOM_STEP, 1)


def _instant(at: float | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at, UTC)
