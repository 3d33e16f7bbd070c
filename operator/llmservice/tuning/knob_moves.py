"""Knobs but replicas: which one to move next on the way to the best setting, and when it may."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from llmservice.api.knobs import Knobs
from llmservice.api.operations import TuningMode
from llmservice.tuning.decision import Action, Decision, Knob, Outcome, Scope, counted, sentence
from llmservice.tuning.forecast import is_learnt
from llmservice.tuning.guard import free_at, goes_back, is_banned, recorded
from llmservice.tuning.measured import AT_ONCE, Signals, Turn
from llmservice.tuning.optimise import LEAST_GAIN, Option
from llmservice.tuning.performance import Candidate, Performance, capacity
from llmservice.tuning.propose import Proposal
from llmservice.tuning.settings import Settings
from llmservice.tuning.state import Asked, State
from llmservice.tuning.trial import CANARY_REPLICAS, Stage, Trial, canary_pod

FIELDS: Final = {Knob.INSTANCES: "instances", Knob.DELAY: "delay", Knob.SLOTS: "slots"}


SHARED: Final = frozenset({Knob.DELAY, Knob.INSTANCES})
"""Knobs whose changes count against the budget of all services of one operator."""
LEAST_WINDOWS: Final = 4
"""Before anything but replicas moves."""


@dataclass(frozen=True)
class Step:
    """The next move, or why there is none and when there may be one."""

    action: Action | None = None
    reason: str = ""
    not_before: float | None = None
    claims: bool = False
    """Whether it is held back by nothing but the budget of all services."""


def next_step(
    state: State,
    performance: Performance,
    proposal: Proposal,
    now: float,
    lead: float,
    turn: Turn = AT_ONCE,
) -> Step:
    """One knob towards the best setting: of those that may move, the one after which a replica takes the most.

    So a road over a worse setting is not taken while there is another. While it is too soon for another delay, the best
    is the one with the delay in force.
    """
    if not proposal.moves:
        return Step()
    unsure, too_soon = _unsure(state), _too_soon(state, proposal)
    aim = proposal.best_with_delay if too_soon else proposal.best
    here, best = proposal.here.candidate, aim.candidate
    if unsure or here == best:
        return Step(reason=f"another setting may be better, but {unsure or too_soon}")
    words = _words(proposal.here, aim)
    found: list[tuple[float, Action]] = []
    waits: list[float] = []
    claims = False
    for knob, name in FIELDS.items():
        old, new = float(getattr(here, name)), float(getattr(best, name))
        if old == new:
            continue
        after = here._replace(**{name: getattr(best, name)})
        free = free_at(state.guard, knob, lead)
        if goes_back(state.guard, knob, new, now, lead) or is_banned(state.guard, after):
            continue
        if now < free:
            waits.append(free)
            continue
        if knob in SHARED and now < turn.free_at:
            claims = True
            continue
        found.append((_capacity_of(performance, after, proposal), Action(knob, old, new, words)))
    if found:
        best_of = max(found, key=lambda one: one[0])
        if best_of[0] < proposal.rate / max(1, proposal.here.replicas) and best_of[0] < proposal.here.capacity:
            return Step(reason=f"{words}, but the way there would not hold the objectives")
        return Step(best_of[1], words)
    if claims:
        return Step(reason=f"{words}, but {turn.reason}", not_before=turn.free_at, claims=True)
    if waits:
        return Step(reason=f"{words}, once its cooldown is over", not_before=min(waits))
    return Step(reason=f"{words}, but it was left a short time ago")


def in_place_first(
    state: State, performance: Performance, proposal: Proposal, now: float, turn: Turn = AT_ONCE
) -> tuple[Action, ...]:
    """The instances to add at once, `proposal.hurried`, while replicas that a panic asks for start.

    An instance is there in seconds and a replica in minutes, and what piles up on a replica until then nobody else
    can serve. The budget of all services holds here too.
    """
    here, most = proposal.here.candidate, proposal.hurried
    if proposal.need.panic <= 0 or not proposal.overloaded or _unsure(state):
        return ()
    if now < max(state.guard.frozen_until, turn.free_at):
        return ()
    if most == here:
        return ()
    old, new = performance.saturation(here), performance.saturation(most)
    words = f"until more replicas serve, one takes at most {new:.3g} instead of {old:.3g} requests/s"
    return (Action(Knob.INSTANCES, here.instances, most.instances, words),)


def _unsure(state: State) -> str:
    """Why too little was learnt to move anything but replicas; empty: enough was."""
    used = state.learnt.used
    if used is not None and not used.identified:
        return "batches of one size alone were seen, which tell nothing of others"
    if state.learnt.forecast.windows < LEAST_WINDOWS:
        return "too few windows were seen"
    return ""


def _too_soon(state: State, proposal: Proposal) -> str:
    """Why the best delay may be another one soon; empty: it is known as well as it will be, or is the present one.

    How much must be held depends on how far forecasts miss. A delay that was chosen before that is known costs one of
    the day's reloads and is locked in for hours; instances and slots change in place and wait for nothing. Nor does a
    delay where the present setting does not hold what comes.
    """
    if proposal.best.candidate.delay == proposal.here.candidate.delay or proposal.here.capped or proposal.overloaded:
        return ""
    return "" if is_learnt(state.learnt.forecast) else "how far forecasts miss is not known yet"


def ordered(
    settings: Settings, signals: Signals, state: State, now: float, actions: tuple[Action, ...], reason: str
) -> tuple[Decision, State]:
    """The decision to take `actions`, and the memory of it. In `Observe` nothing is remembered as done."""
    knobs = signals.knobs
    pod, reason = _tries_first(settings, signals, actions, reason)
    if pod:
        actions = tuple(replace(one, scope=Scope.CANARY) for one in actions)
    after = moved(knobs, tuple(one for one in actions if one.scope is not Scope.CANARY))
    decision = Decision(Outcome.ACT, after, moved(knobs, actions), sentence(reason), actions=actions)
    if settings.mode is not TuningMode.AUTO:
        return decision, state
    trial = state.trial
    setting = next((one for one in actions if one.knob is not Knob.REPLICAS), None)
    if setting is not None and trial is None and now >= state.guard.frozen_until:
        trial = Trial(
            stage=Stage.CANARY if pod else Stage.ALL,
            knob=setting.knob,
            old=tuple(setting_of(knobs)),
            new=tuple(setting_of(moved(knobs, actions))),
            at=now,
            pod=pod,
            generation=settings.generation,
        )
    guard = recorded(state.guard, actions, now)
    return decision, state.model_copy(update={"guard": guard, "asked": asked_of(after), "trial": trial})


def moved(knobs: Knobs, actions: tuple[Action, ...]) -> Knobs:
    """`knobs` after `actions`."""
    update: dict[str, object] = {}
    for one in actions:
        if one.knob is Knob.DELAY:
            update["max_queue_delay"] = timedelta(microseconds=round(1e6 * one.new))
        else:
            name = {Knob.INSTANCES: "engine_instances", Knob.SLOTS: "slots", Knob.REPLICAS: "replicas"}[one.knob]
            update[name] = round(one.new)
    return knobs.model_copy(update=update)


def asked_of(knobs: Knobs) -> Asked:
    """`knobs` as they are remembered."""
    return Asked(
        delay=knobs.max_queue_delay.total_seconds(),
        instances=knobs.engine_instances,
        slots=knobs.slots,
        replicas=knobs.replicas,
    )


def knobs_of(asked: Asked) -> Knobs:
    """What `asked_of` remembered, as knobs."""
    delay = timedelta(microseconds=round(1e6 * asked.delay))
    return Knobs(max_queue_delay=delay, engine_instances=asked.instances, slots=asked.slots, replicas=asked.replicas)


def between(old: Candidate, new: Candidate, reason: str, scope: Scope) -> tuple[Action, ...]:
    """The actions that make `new` of `old`, whatever cooldowns say."""
    return tuple(
        Action(knob, float(getattr(old, name)), float(getattr(new, name)), reason, scope)
        for knob, name in FIELDS.items()
        if getattr(old, name) != getattr(new, name)
    )


def _tries_first(settings: Settings, signals: Signals, actions: tuple[Action, ...], reason: str) -> tuple[str, str]:
    """The replica that tries `actions` first, empty for none, and the reason with why there is none.

    One does where there are three, and the change is none that undoes or goes on with another, or goes with replicas,
    which are for those who have no time.
    """
    trying = all(one.knob is not Knob.REPLICAS and one.scope is Scope.ALL for one in actions)
    if not settings.canary or not trying:
        return "", reason
    ready = signals.replicas.ready
    if ready < CANARY_REPLICAS:
        serve = "one serves" if ready == 1 else f"{ready} serve"
        reason = f"{reason.rstrip('.')}; no replica tries it first: that takes {CANARY_REPLICAS}, and {serve}"
        return "", reason
    pod = canary_pod(signals)
    return pod, f"{reason.rstrip('.')}; replica {pod} tries it first" if pod else reason


def setting_of(knobs: Knobs) -> Candidate:
    """`knobs` as a setting."""
    return Candidate(knobs.engine_instances, knobs.max_queue_delay.total_seconds(), knobs.slots)


def with_setting(knobs: Knobs, setting: Candidate) -> Knobs:
    """`knobs` with `setting`, and as many replicas."""
    delay = timedelta(microseconds=round(1e6 * setting.delay))
    update = {"engine_instances": setting.instances, "max_queue_delay": delay, "slots": setting.slots}
    return knobs.model_copy(update=update)


def _capacity_of(performance: Performance, after: Candidate, proposal: Proposal) -> float:
    if after not in performance.candidates():
        return proposal.here.capacity
    return capacity(performance, after, proposal.feasible, proposal.share)[0]


def _words(here: Option, best: Option) -> str:
    return f"with {_told(best.candidate)} instead of {_told(here.candidate)} {gain_in_words(here, best)}"


def gain_in_words(here: Option, best: Option) -> str:
    """By what `optimise.choose` has `best`: fewer replicas, more capacity, less computing, or a shorter tail."""
    if best.replicas < here.replicas:
        return f"{best.replicas} instead of {counted(here.replicas, 'replica')} would do"
    if best.capacity > here.capacity:
        return f"a replica then takes {best.capacity:.3g} instead of {here.capacity:.3g} requests/s"
    if best.busy < here.busy * (1 - LEAST_GAIN / 2):
        return f"engines compute {100 * (1 - best.busy / here.busy):.0f} % less for the same requests"
    return f"the tail takes {100 * best.tail:.0f} instead of {100 * here.tail:.0f} % of its objective"


def _told(candidate: Candidate) -> str:
    many = "instance" if candidate.instances == 1 else "instances"
    return f"{candidate.instances} {many}, {1000 * candidate.delay:g} ms of delay and {candidate.slots} slots"
