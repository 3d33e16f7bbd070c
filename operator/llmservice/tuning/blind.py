"""Without signals or a model to trust, knobs stay; only what is plainly overwhelmed may get more replicas."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from llmservice.tuning.decision import Action, Decision, Knob, Outcome
from llmservice.tuning.guard import free_at, not_fewer
from llmservice.tuning.knob_moves import ordered
from llmservice.tuning.learnt import lead_of
from llmservice.tuning.measured import Signals
from llmservice.tuning.settings import Settings
from llmservice.tuning.state import State

PATIENCE: Final = 600.0
"""Seconds without trustworthy signals after which somebody should look."""
STEP: Final = 0.25
WAITING: Final = 5.0
"""Requests that wait, per replica and slot share, from which a replica counts as saturated."""
FULL_CACHE: Final = 0.9


def hold(settings: Settings, signals: Signals, state: State, now: float, why: str) -> tuple[Decision, State]:
    """Signals are missing, stale or contradict each other: nothing is learnt and nothing moves.

    After `PATIENCE`, what can still be seen to be saturated gets more replicas; never fewer.
    """
    since = state.guard.untrusted_since if state.guard.untrusted_since is not None else now
    guard = not_fewer(state.guard).model_copy(update={"untrusted_since": since, "zero_windows": 0})
    state = state.model_copy(update={"guard": guard})
    long = now - since >= PATIENCE
    reason = f"Knobs stay: {why}."
    decision = Decision(
        Outcome.DISTRUST, signals.knobs, signals.knobs, reason, trusted=False, distrust=why, degraded=long
    )
    if long and not signals.under_way and not signals.contradictions:
        more = _more(settings, signals, state, now)
        if more is not None:
            decision, state = ordered(settings, signals, state, now, (more,), more.reason)
            decision = replace(decision, trusted=False, distrust=why, degraded=True)
    return decision, state


def unmodelled(
    settings: Settings, signals: Signals, state: State, now: float, why: str, frozen: str
) -> tuple[Decision, State]:
    """Signals are there, but no model that explains them: knobs stay, saturated services get more replicas at once."""
    reason = f"Knobs stay: {frozen or why}."
    decision = Decision(Outcome.DISTRUST, signals.knobs, signals.knobs, reason, trusted=False, distrust=why)
    more = None if frozen else _more(settings, signals, state, now)
    if more is not None:
        decision, state = ordered(settings, signals, state, now, (more,), more.reason)
        decision = replace(decision, trusted=False, distrust=why)
    return decision, state


def _more(settings: Settings, signals: Signals, state: State, now: float) -> Action | None:
    supply = signals.knobs.replicas
    most = settings.bounds.max_replicas
    if signals.replicas_owner or supply >= most or signals.replicas.supplied > signals.replicas.ready:
        return None
    if now < free_at(state.guard, Knob.REPLICAS, lead_of(state.learnt, settings)):
        return None
    why = _saturated(settings, signals)
    if not why:
        return None
    new = min(most, supply + max(1, math.ceil(STEP * supply)))
    return Action(Knob.REPLICAS, supply, new, f"{why}, and there is no model to say how many replicas are needed")


def _saturated(settings: Settings, signals: Signals) -> str:
    """By what can be seen without a model, in words; empty: not saturated."""
    ready = max(1, signals.replicas.ready)
    queue = signals.queue_depth.known
    room = settings.limits.max_sequences * max(1, signals.knobs.engine_instances)
    if signals.rejections.known_or(0.0) > 0:
        return "requests are refused"
    if queue is not None and queue >= ready * max(WAITING, 2.0 * room):
        return f"{queue:.0f} requests wait for {ready} replicas"
    if signals.kv_usage.known_or(0.0) >= FULL_CACHE and signals.waiting.known_or(0.0) >= WAITING * ready:
        return "the cache of keys and values is full and sequences wait"
    return ""
