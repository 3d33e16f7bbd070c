"""One window: signals and memory to a decision and the next memory. Pure; `now` is the only clock.

Guards come in order and each may end the decision: tuning is off, the signals cannot be trusted, nothing comes any
more, something is under way, a change is on trial. What is left asks the model: replicas first, since too few of them
break objectives and too many cost money, then one other knob at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from llmservice.api.operations import TuningMode
from llmservice.tuning import account, blind, bursts_felt, verify
from llmservice.tuning.decision import Action, Decision, Knob, Outcome, counted, sentence
from llmservice.tuning.forecast import doubt
from llmservice.tuning.guard import agreed_seconds, free_at, not_fewer, repaired, went_and_came_back_until
from llmservice.tuning.interruption import interrupted
from llmservice.tuning.knob_moves import Step, in_place_first, next_step, ordered
from llmservice.tuning.learnt import lead_of, learn
from llmservice.tuning.measured import Signals, UnderWay
from llmservice.tuning.model import candidate_of, model_of
from llmservice.tuning.performance import Performance
from llmservice.tuning.propose import Proposal, propose
from llmservice.tuning.replicas import Pace, Wanted, consolidates, decide_replicas
from llmservice.tuning.settings import Settings
from llmservice.tuning.state import State
from llmservice.tuning.trust import judge, steady

ZERO_WINDOWS: Final = 3
"""Windows without any traffic after which the fewest replicas do (dynamo#6985 never came down)."""
SATURATED_KV: Final = 0.8
SATURATED_WAITING: Final = 5.0
"""Sequences that wait inside engines, per replica (llm-d's saturation analyzer uses the same two figures)."""
OURS: Final = (UnderWay.LIVE_CHANGE, UnderWay.LIVE_FAILURE)
"""What is under way of the tuner's own; more replicas may come meanwhile."""


@dataclass(frozen=True)
class Pass:
    """What one window's guards hand on."""

    settings: Settings
    signals: Signals
    state: State
    now: float
    lead: float

    @property
    def horizon(self) -> float:
        """Seconds until what is asked for now has served one window."""
        return self.lead + 1.5 * self.signals.window_seconds


def decide(settings: Settings, signals: Signals, state: State, now: float) -> tuple[Decision, State]:
    """What to do after this window, and what to remember. `now` is seconds since the epoch."""
    if settings.mode is TuningMode.OFF:
        return Decision(Outcome.OFF, signals.knobs, signals.knobs, "Tuning is off: knobs stay where they are."), state
    state = state.model_copy(
        update={"guard": repaired(state.guard, now), "bursts_felt": bursts_felt.repaired(state.bursts_felt, now)}
    )
    ended, state = interrupted(settings, signals, state, now)
    if ended is not None:
        decision = ended
    else:
        decision, state = _decide(settings, signals, account.adopted(state, signals), now)
    return _finished(settings, signals, decision, state, now)


def distrusted(settings: Settings, signals: Signals, state: State, now: float, why: str) -> tuple[Decision, State]:
    """What to do after a window that nobody can make sense of, `why` in words, and what to remember."""
    decision, state = blind.hold(settings, signals, state, now, why)
    return _finished(settings, signals, decision, state, now)


def _finished(
    settings: Settings, signals: Signals, decision: Decision, state: State, now: float
) -> tuple[Decision, State]:
    if settings.mode is TuningMode.OBSERVE:
        decision = _observed(decision, signals)
    state = account.remembered(state, decision, now)
    return decision, state.model_copy(update={"generation": settings.generation})


def _decide(settings: Settings, signals: Signals, state: State, now: float) -> tuple[Decision, State]:
    trust = judge(signals)
    lead = lead_of(state.learnt, settings)
    one = Pass(settings, signals, state, now, lead)
    if trust.distrust:
        return blind.hold(settings, signals, state, now, trust.distrust)
    state = state.model_copy(
        update={
            "guard": state.guard.model_copy(update={"untrusted_since": None}),
            "learnt": learn(state.learnt, settings, signals, now, trust.pods, one.horizon),
        }
    )
    one = replace(one, state=state, lead=lead_of(state.learnt, settings))
    state = _counted_idle(one)
    one = replace(one, state=state)
    if state.guard.zero_windows > 0:
        return _idle(one)
    modelled = model_of(state.learnt, settings, signals.knobs)
    if modelled.performance is None or modelled.distrust:
        return blind.unmodelled(settings, signals, state, now, modelled.distrust, trust.frozen)
    if not trust.frozen and state.trial is None:
        corrected = account.corrected(state, modelled.performance, signals, now)
        one = replace(one, state=corrected)
        modelled = model_of(corrected.learnt, settings, signals.knobs)
    assert modelled.performance is not None  # noqa: S101 - corrections take no model away
    return _modelled(one, modelled.performance, trust.frozen)


def _counted_idle(one: Pass) -> State:
    """The memory with how many windows in a row no request came in, this one included; 0 where one did."""
    signals, guard = one.signals, one.state.guard
    nothing = signals.arrivals.known == 0 and signals.queue_depth.known_or(0.0) == 0
    windows = guard.zero_windows + 1 if nothing and signals.running.known_or(0.0) == 0 else 0
    return one.state.model_copy(update={"guard": guard.model_copy(update={"zero_windows": windows})})


def _idle(one: Pass) -> tuple[Decision, State]:
    """Zero is a measurement: after some windows in a row without any request, the fewest replicas do."""
    signals, state = one.signals, one.state
    windows = state.guard.zero_windows
    floor = one.state.bursts_felt.floor_at(one.now)
    fewest = max(1, one.settings.bounds.min_replicas)
    least = max(fewest, floor)
    kept = f"; {bursts_felt.told(floor)}" if floor > fewest else ""
    supply = signals.knobs.replicas
    reason = f"no request came for {counted(windows, 'window')}{kept}"
    tried = state.trial is not None and state.trial.is_canary
    if windows < ZERO_WINDOWS or supply <= least or signals.under_way or tried or signals.replicas_owner:
        return _calm(signals, reason), state
    free = went_and_came_back_until(state.guard, one.lead)
    if one.now < free:
        return _calm(signals, f"{reason}; what went before came back, so it must last", free), state
    action = Action(Knob.REPLICAS, supply, least, reason)
    return ordered(one.settings, signals, state, one.now, (action,), action.reason)


def _calm(signals: Signals, reason: str, next_action_at: float | None = None) -> Decision:
    """Nothing comes, and nothing is done."""
    knobs = signals.knobs
    return Decision(Outcome.HOLD, knobs, knobs, sentence(reason), headroom=1.0, next_action_at=next_action_at)


def _modelled(one: Pass, performance: Performance, frozen: str) -> tuple[Decision, State]:
    here = candidate_of(one.signals.knobs)
    proposal = propose(performance, one.state.learnt, one.state.guard, one.settings, one.signals, here, one.horizon)
    if any(way not in OURS for way in one.signals.under_way):
        return _hold(one, proposal, f"Knobs stay: {frozen}.")
    supply = one.signals.knobs.replicas
    if one.state.trial is None:  # what a trial misses is the trial's
        felt = bursts_felt.feel(
            one.state.bursts_felt, one.signals, one.settings, proposal.feasible, proposal.here.capacity, one.now
        )
        guard = one.state.guard if felt == one.state.bursts_felt else not_fewer(one.state.guard)
        one = replace(one, state=one.state.model_copy(update={"bursts_felt": felt, "guard": guard}))
    floor = one.state.bursts_felt.floor_at(one.now)
    lifted = floor > proposal.need.up
    proposal = replace(proposal, need=proposal.need.at_least(floor), burst_floor=floor, bursts_decide=lifted)
    wanted = _replicas(one, proposal)
    one = replace(one, state=one.state.model_copy(update={"guard": wanted.guard}))
    step = Step()
    if not frozen and one.state.trial is None and steady(one.signals):
        step = next_step(one.state, performance, proposal, one.now, one.lead, one.signals.turn)
    more = Action(Knob.REPLICAS, supply, wanted.replicas, wanted.reason)
    if wanted.replicas > supply and not _in_place_will_do(one, proposal, step):
        rushed: tuple[Action, ...] = ()
        if not frozen and one.state.trial is None:
            rushed = in_place_first(one.state, performance, proposal, one.now, one.signals.turn)
        return _ordered(one, proposal, (more, *rushed), wanted.reason)
    if frozen:
        return _hold(one, proposal, f"Knobs stay: {frozen}.", wanted.not_before)
    if one.state.trial is not None:
        verdict = verify.watch(one.settings, one.signals, one.state, performance, one.now)
        one = replace(one, state=verdict.state)
        if verdict.actions:
            return _ordered(one, proposal, verdict.actions, verdict.reason)
        return _hold(one, proposal, verdict.reason, wanted.not_before)
    if step.action is not None:
        return _ordered(one, proposal, (step.action,), step.reason)
    if wanted.replicas < supply and one.now >= free_at(one.state.guard, Knob.REPLICAS, one.lead):
        return _ordered(one, proposal, (more,), wanted.reason)
    times = [time for time in (wanted.not_before, step.not_before) if time is not None]
    decision, state = _hold(one, proposal, step.reason or wanted.reason, min(times, default=None))
    return replace(decision, claims=step.claims), state


def _in_place_will_do(one: Pass, proposal: Proposal, step: Step) -> bool:
    """Whether a change in place, which is faster than any replica, spares those that the present setting needs."""
    return (
        step.action is not None
        and not proposal.overloaded
        and not proposal.best.capped
        and proposal.best.replicas <= one.signals.knobs.replicas
    )


def _replicas(one: Pass, proposal: Proposal) -> Wanted:
    """How many replicas to have; as many as there are where somebody else decides that."""
    signals, bounds = one.signals, one.settings.bounds
    supply = signals.knobs.replicas
    if signals.replicas_owner:
        return Wanted(supply, one.state.guard, f"{signals.replicas_owner} decides about replicas")
    veto = _veto(one, proposal)
    free = signals.free_accelerators.known
    each = max(1, one.settings.limits.accelerators_per_replica)
    room = None if free is None else max(0, int(free) // each - len(signals.replicas.pending))
    bounds = replace(bounds, min_replicas=max(1, bounds.min_replicas))
    pace = Pace(one.lead, agreed_seconds(one.lead, doubt(one.state.learnt.forecast)))
    wanted = decide_replicas(one.state.guard, proposal.need, supply, bounds, one.now, pace, veto, room)
    capacity = proposal.here.capacity
    if wanted.replicas < supply and not consolidates(
        proposal.rate, capacity, supply, wanted.replicas, long=wanted.long
    ):
        return Wanted(supply, wanted.guard, "fewer replicas would be too full at the rate of now")
    return wanted


def _veto(one: Pass, proposal: Proposal) -> str:
    """Why no replica may go, whatever the model says; empty: none."""
    signals = one.signals
    ready = max(1, signals.replicas.ready)
    if signals.replicas.starting or signals.replicas.pending:
        return "replicas are still starting"
    if signals.rejections.known_or(0.0) > 0:
        return "requests are refused"
    if signals.kv_usage.known_or(0.0) >= SATURATED_KV:
        return "the cache of keys and values is nearly full"
    if signals.waiting.known_or(0.0) >= SATURATED_WAITING * ready:
        return "sequences wait inside the engines"
    for objective in proposal.feasible:
        seen = signals.of(objective.metric).mean.known
        if seen is not None and seen > objective.seconds:
            return f"{objective.words} is missed"
    if one.now < one.state.guard.frozen_until:
        return "something was undone within the hour"
    return ""


def _ordered(one: Pass, proposal: Proposal, actions: tuple[Action, ...], reason: str) -> tuple[Decision, State]:
    decision, state = ordered(one.settings, one.signals, one.state, one.now, actions, reason)
    return account.explained(decision, one.signals, proposal), state


def _hold(one: Pass, proposal: Proposal, reason: str, not_before: float | None = None) -> tuple[Decision, State]:
    knobs = one.signals.knobs
    decision = Decision(
        Outcome.HOLD,
        knobs,
        knobs,
        sentence(reason),
        next_action_at=None if not_before is None else max(one.now, not_before),
    )
    return account.explained(decision, one.signals, proposal), one.state


def _observed(decision: Decision, signals: Signals) -> Decision:
    """What would have been done, without doing it."""
    if not decision.actions:
        return decision
    return replace(
        decision,
        outcome=Outcome.OBSERVE,
        knobs=signals.knobs,
        proposed=decision.knobs,
        actions=(),
        reason=f"Would act: {decision.reason}",
    )
