"""Where a service's own metrics contradict each other: then none of them moves a knob. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from llmservice.tuning.measured import Signals

SLACK: Final = 1.1
"""Series of one page are exported up to a quarter of a second apart, and a window's ends fall between two exports."""
FEW: Final = 20
"""Steps or requests below which a contradiction may be chance."""

Contradiction = Callable[[Signals], str | None]
"""One pure look at the signals: what cannot be, in words; None where nothing is wrong."""


def contradictions(signals: Signals) -> tuple[str, ...]:
    """Everything that cannot be true of these signals together."""
    return tuple(text for check in CHECKS if (text := check(signals)) is not None)


def busier_than_time(signals: Signals) -> str | None:
    """Engines cannot have computed for longer than the window has seconds (a counter read twice, or a clock astray)."""
    engines = _most_instances(signals) * max(1, signals.replicas.ready + signals.replicas.terminating)
    seconds = sum(step.seconds for step in signals.steps)
    most = engines * signals.window_seconds * SLACK
    if sum(step.count for step in signals.steps) < FEW or seconds <= most + 1.0:
        return None
    return f"engine steps took {seconds:.0f} s within {engines} x {signals.window_seconds:.0f} s"


def larger_than_allowed(signals: Signals) -> str | None:
    """A step cannot hold more sequences than there are slots."""
    largest = max((step.batch_size for step in signals.steps), default=0)
    if largest <= _most_slots(signals):
        return None
    return f"a step of {largest} sequences, and an engine instance has {_most_slots(signals)} slots"


def served_without_steps(signals: Signals) -> str | None:
    """Answers with tokens need steps; an engine that counts none is not the one that answers."""
    done = (signals.completions.known or 0.0) * signals.window_seconds
    tokens = (signals.output_tokens.known or 0.0) * done
    if done < FEW or tokens < FEW or signals.steps or signals.running.known is None:
        return None
    return f"{done:.0f} requests were answered with {tokens:.0f} tokens, and the engine counts no step"


def more_running_than_came(signals: Signals) -> str | None:
    """Sequences inside the engine came through the gate."""
    running = signals.running.known or 0.0
    came = (signals.arrivals.known or 0.0) * signals.window_seconds
    left = (signals.completions.known or 0.0) * signals.window_seconds
    most = _most_slots(signals) * _most_instances(signals) * max(1, signals.replicas.ready)
    if running <= most * SLACK + 1 or signals.replicas.terminating or came + left < FEW:
        return None
    return f"{running:.0f} sequences run, and the slots are {most}"


def _most_instances(signals: Signals) -> int:
    """Engine instances of a replica, of the one that tries other knobs if those are more."""
    tried = signals.canary_knobs.engine_instances if signals.canary_knobs else 1
    return max(1, signals.knobs.engine_instances, tried)


def _most_slots(signals: Signals) -> int:
    """Slots of an engine instance, likewise."""
    return max(signals.knobs.slots, signals.canary_knobs.slots if signals.canary_knobs else 0)


CHECKS: Final[tuple[Contradiction, ...]] = (
    busier_than_time,
    larger_than_allowed,
    served_without_steps,
    more_running_than_came,
)
