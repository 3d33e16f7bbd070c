"""One window: signals and memory to a decision and the next memory. Pure; `now` is the only clock."""

from __future__ import annotations

from llmservice.api.operations import TuningMode
from llmservice.tuning.decision import Decision, Outcome
from llmservice.tuning.measured import Signals
from llmservice.tuning.settings import Settings
from llmservice.tuning.state import State


def decide(settings: Settings, signals: Signals, state: State, now: float) -> tuple[Decision, State]:
    """What to do after this window, and what to remember. `now` is seconds since the epoch, never going back."""
    _ = now
    if settings.mode is TuningMode.OFF:
        return Decision(Outcome.OFF, signals.knobs, signals.knobs, "Tuning is off: knobs stay where they are."), state
    return Decision(Outcome.HOLD, signals.knobs, signals.knobs, "Nothing is learnt yet: knobs stay."), state
