"""What a window adds to the memory, and what a decision tells of itself."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

from llmservice.api.knobs import Knobs
from llmservice.tuning.bursts_felt import told
from llmservice.tuning.decision import Decision, Outcome
from llmservice.tuning.guard import last_change
from llmservice.tuning.knob_moves import asked_of
from llmservice.tuning.measured import Signals
from llmservice.tuning.metric import Metric
from llmservice.tuning.model import candidate_of
from llmservice.tuning.performance import Performance
from llmservice.tuning.propose import Proposal
from llmservice.tuning.state import DECISIONS_KEPT, PastDecision, State
from llmservice.tuning.tail import learn_bias
from llmservice.tuning.trust import steady

SETTLED_WINDOWS: Final = 2.5
"""Windows after a change in which latencies are of both settings."""
STEADY: Final = 0.92
"""Of saturation, up to which a window may count as a steady state."""


def adopted(state: State, signals: Signals) -> State:
    """The memory. Knobs that somebody else moved are taken as they are: what we tried is over, theirs are good."""
    current = asked_of(signals.knobs)
    if state.asked is None:
        return state.model_copy(update={"asked": current, "last_good": current})
    if signals.under_way or state.asked == current.model_copy(update={"replicas": state.asked.replicas}):
        return state.model_copy(update={"asked": state.asked.model_copy(update={"replicas": current.replicas})})
    return state.model_copy(update={"asked": current, "last_good": current, "trial": None})


def corrected(state: State, performance: Performance, signals: Signals, now: float) -> State:
    """The memory of what the model misses by, after a window in a steady state; any other says nothing."""
    here = candidate_of(signals.knobs)
    last = last_change(state.guard)
    settled = last is None or now - last.at > SETTLED_WINDOWS * signals.window_seconds
    rate = signals.arrivals.known
    if not settled or not rate or not steady(signals):
        return state
    each = rate / signals.replicas.ready
    if each > STEADY * performance.saturation(here):
        return state
    learnt = state.learnt
    for metric in Metric:
        correction, seen = learnt.correction(metric.value), signals.of(metric)
        if seen.mean.known is None:
            continue
        found = learn_bias(correction, seen.mean.known, performance.mean(here, metric, each), seen.mean.samples)
        learnt = learnt.corrected(found)
    return state.model_copy(update={"learnt": learnt})


def explained(decision: Decision, signals: Signals, proposal: Proposal) -> Decision:
    """The decision with the figures it rests on, and what the model would have in the end."""
    best = proposal.best
    proposed = Knobs(
        max_queue_delay=timedelta(microseconds=round(1e6 * best.candidate.delay)),
        engine_instances=best.candidate.instances,
        slots=best.candidate.slots,
        replicas=max(1, best.replicas),
    )
    bursts = f"{decision.reason.rstrip('.')}; {told(proposal.burst_floor)}."
    reason = bursts if proposal.bursts_decide else decision.reason
    return replace(
        decision,
        proposed=proposed,
        reason=reason,
        inputs=inputs(signals, proposal),
        headroom=round(proposal.headroom, 4),
        limiting=proposal.limiting,
        infeasible=proposal.infeasible,
        predictions=proposal.predictions,
    )


def inputs(signals: Signals, proposal: Proposal) -> tuple[tuple[str, float], ...]:
    """The figures behind a decision, rounded for people."""
    figures: dict[str, float | None] = {
        "arrivals": signals.arrivals.known,
        "demand": proposal.demand,
        "capacityPerReplica": proposal.here.capacity,
        "queueDepth": signals.queue_depth.known,
        "replicas": float(signals.knobs.replicas),
        "readyReplicas": float(signals.replicas.ready),
        "needed": float(proposal.need.up),
        "keptForBursts": float(proposal.burst_floor) if proposal.burst_floor else None,
    }
    return tuple((name, float(f"{value:.4g}")) for name, value in figures.items() if value is not None)


def remembered(state: State, decision: Decision, now: float) -> State:
    """The memory with this decision, if it did something or is of another kind than the last."""
    last = state.decisions[-1] if state.decisions else None
    acts = decision.actions or decision.outcome is Outcome.OBSERVE
    if not acts and last is not None and last.outcome == decision.outcome.value:
        return state
    past = PastDecision(
        at=now,
        outcome=decision.outcome.value,
        reason=decision.reason,
        changes=tuple(f"{one.knob.value} {one.old:g} -> {one.new:g} ({one.scope.value})" for one in decision.actions),
        inputs=decision.inputs,
    )
    return state.model_copy(update={"decisions": (*state.decisions, past)[-DECISIONS_KEPT:]})
