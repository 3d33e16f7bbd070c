"""What ends a change on trial before it has a verdict: its replica, its service or its knobs are not what they were."""

from __future__ import annotations

from typing import Final

from llmservice.api.knobs import Knobs
from llmservice.api.operations import TuningMode
from llmservice.tuning.decision import Action, Decision, Outcome, Scope, sentence
from llmservice.tuning.guard import failed, recorded
from llmservice.tuning.knob_moves import asked_of, between, moved, setting_of, with_setting
from llmservice.tuning.measured import Signals, UnderWay
from llmservice.tuning.performance import Candidate
from llmservice.tuning.settings import Settings
from llmservice.tuning.state import State
from llmservice.tuning.trial import CANARY_SECONDS, Trial

REFUSED_WINDOWS: Final = 2
"""Windows in a row in which a replica did not take a change, until it is undone: a call may fail by chance."""
OVERDUE: Final = 2 * CANARY_SECONDS
"""Seconds after which a canary ends whatever holds up its verdict: signals that are gone, a gate that drains."""


def on_trial(trial: Trial | None, settings: Settings, knobs: Knobs) -> tuple[str, Knobs] | None:
    """The replica that is to have knobs of its own now, and which; None: all have `knobs`.

    Asked at every pass, so that nothing has to be sent for a trial to end on the replica: it is enough that one of
    what it was begun under is not so any more.
    """
    if trial is None or not trial.is_canary or not trial.pod or settings.mode is not TuningMode.AUTO:
        return None
    if trial.generation != settings.generation or not _same(trial.old_candidate, setting_of(knobs)):
        return None
    return trial.pod, with_setting(knobs, trial.new_candidate)


def interrupted(settings: Settings, signals: Signals, state: State, now: float) -> tuple[Decision | None, State]:
    """The decision that ends the trial, and the memory without it; no decision where the trial may go on."""
    trial = state.trial
    if trial is None:
        return None, state
    refused = trial.refused + 1 if UnderWay.LIVE_FAILURE in signals.under_way else 0
    trial = trial.model_copy(update={"refused": refused})
    state = state.model_copy(update={"trial": trial})
    if refused >= REFUSED_WINDOWS:
        return _end(settings, signals, state, trial, now, "a replica did not take the change", blame=True)
    if not trial.is_canary:
        return None, state
    why, blame = _end_of_canary(settings, signals, trial, now)
    return _end(settings, signals, state, trial, now, why, blame=blame) if why else (None, state)


def _end_of_canary(settings: Settings, signals: Signals, trial: Trial, now: float) -> tuple[str, bool]:
    """Why the canary ends, in words, and whether the setting is to blame. Empty: it goes on."""
    if trial.generation != settings.generation or UnderWay.USER_CHANGE in signals.under_way:
        return "somebody changed the service", False
    if UnderWay.ROLLOUT in signals.under_way:
        return "a rollout began", False
    if trial.pod not in {pod.name for pod in signals.pods}:
        leaving = signals.replicas.terminating > 0 or UnderWay.DRAIN in signals.under_way
        return f"replica {trial.pod} serves no more", not leaving
    if not (trial.at <= now < trial.at + OVERDUE):
        return "there was no verdict in time", False
    return "", False


def _end(
    settings: Settings, signals: Signals, state: State, trial: Trial, now: float, why: str, *, blame: bool
) -> tuple[Decision, State]:
    scope = Scope.CANARY if trial.is_canary else Scope.PROMOTED
    undo: tuple[Action, ...] = between(trial.new_candidate, trial.old_candidate, f"undone: {why}", scope)
    knobs = signals.knobs if trial.is_canary else moved(signals.knobs, undo)
    guard = failed(state.guard, trial.new_candidate, now) if blame else state.guard
    where = "on one replica " if trial.is_canary else ""
    reason = sentence(f"the change {where}is undone: {why}")
    if settings.mode is not TuningMode.AUTO:
        return Decision(Outcome.HOLD, signals.knobs, signals.knobs, reason), state.model_copy(update={"trial": None})
    update = {"trial": None, "guard": recorded(guard, undo, now), "asked": asked_of(knobs)}
    return Decision(Outcome.ACT, knobs, knobs, reason, actions=undo), state.model_copy(update=update)


def _same(one: Candidate, other: Candidate) -> bool:
    return (one.instances, one.slots) == (other.instances, other.slots) and abs(one.delay - other.delay) < 1e-6
