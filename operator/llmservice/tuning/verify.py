"""A change on trial, window by window: promoted, confirmed or undone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from llmservice.tuning.decision import Action, Scope
from llmservice.tuning.guard import failed
from llmservice.tuning.knob_moves import asked_of, between
from llmservice.tuning.measured import Signals
from llmservice.tuning.metric import Metric
from llmservice.tuning.model import candidate_of
from llmservice.tuning.performance import Performance
from llmservice.tuning.settings import Settings
from llmservice.tuning.state import State
from llmservice.tuning.tail import factor
from llmservice.tuning.trial import FAILURES, Stage, Trial, Verdict, watch_all, watch_canary
from llmservice.tuning.trust import steady

STEADY_LOAD: Final = 0.95
"""Of saturation, up to which a window says what a setting does."""


@dataclass(frozen=True)
class Watched:
    """The state after a window of a trial, what to do, and why."""

    state: State
    reason: str
    actions: tuple[Action, ...] = ()


def watch(settings: Settings, signals: Signals, state: State, performance: Performance, now: float) -> Watched:
    """One more window of the trial in `state`. Raises ValueError without one."""
    if state.trial is None:
        raise ValueError("no change is on trial")
    if state.trial.is_canary:
        return _canary(signals, state, state.trial, now)
    return _all(settings, signals, state, state.trial, performance, now)


def _canary(signals: Signals, state: State, trial: Trial, now: float) -> Watched:
    trial, verdict, why = watch_canary(trial, signals.canary if steady(signals) else None, now)
    old, new = trial.old_candidate, trial.new_candidate
    if verdict is Verdict.GOING:
        return Watched(state.model_copy(update={"trial": trial}), f"replica {trial.pod} tries a change: {why}")
    if verdict is Verdict.BAD:
        undo = between(new, old, f"undone on the canary: {why}", Scope.CANARY)
        state = state.model_copy(update={"trial": None, "guard": failed(state.guard, new, now)})
        return Watched(state, f"the change on one replica is undone: {why}", undo)
    rest = between(old, new, f"proven on the canary: {why}", Scope.PROMOTED)
    proven = Trial(stage=Stage.ALL, knob=trial.knob, old=trial.old, new=trial.new, at=now)
    return Watched(
        state.model_copy(update={"trial": proven}), f"the change is proven on one replica and made on all: {why}", rest
    )


def _all(
    settings: Settings, signals: Signals, state: State, trial: Trial, performance: Performance, now: float
) -> Watched:
    here = candidate_of(signals.knobs)
    metric = settings.objectives[0].metric if settings.objectives else Metric.LATENCY
    rate = signals.arrivals.known_or(0.0) / max(1, signals.replicas.ready)
    seen = signals.of(metric).mean
    tells = steady(signals) and 0 < rate < STEADY_LOAD * performance.saturation(here)
    foretold = factor(state.learnt.correction(metric.value)) * performance.mean(here, metric, rate) if tells else None
    failing = signals.failures.known_or(0.0) > FAILURES * signals.arrivals.known_or(0.0) > 0
    trial, verdict, why = watch_all(trial, seen.known, foretold, rate * signals.window_seconds, failing, now)
    if verdict is Verdict.GOING:
        return Watched(state.model_copy(update={"trial": trial}), why)
    if verdict is Verdict.GOOD:
        proven = {"trial": None, "last_good": asked_of(signals.knobs)}
        return Watched(state.model_copy(update=proven), f"the change is verified: {why}")
    undo = between(here, trial.old_candidate, f"undone: {why}", Scope.PROMOTED)
    state = state.model_copy(update={"trial": None, "guard": failed(state.guard, here, now)})
    return Watched(state, f"the change is undone: {why}", undo)
