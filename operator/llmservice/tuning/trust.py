"""Whether this window's signals may be acted on, and if not, why. Missing is not zero, stale is not fresh."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from llmservice.tuning.measured import Signals, UnderWay, Validity

QUORUM: Final = 0.5
"""Share of ready pods that must answer: more than half, not all, or one pod would block everything (aibrix#617)."""
WARM_UP: Final = 1.0
"""Windows after which a ready pod is expected to have figures."""


BACKLOG: Final = 0.125
"""Of a window's arrivals, waiting at its end: more than batches that form."""
LEAST_BACKLOG: Final = 16.0
DRAINED: Final = 2.0
"""A window whose requests took so many times as long as what is inside explains (Little's law) served a queue that is
gone: its latencies are of that queue."""
LEFT: Final = 0.5
"""So is one in which so many more ended than came, of what is inside on average. A queue of n that ends within a window
adds up to n / 2 seconds for each request/s to the mean: a quarter of it, then."""
FEW: Final = 2.0


@dataclass(frozen=True)
class Trust:
    """`pods` replicas speak. `distrust` and `frozen` are in words; empty: none."""

    pods: int
    distrust: str = ""
    frozen: str = ""


def judge(signals: Signals) -> Trust:
    """Whether the signals may be acted on (`distrust`) and the knobs be moved at all (`frozen`)."""
    warm = WARM_UP * signals.window_seconds
    expected = [pod for pod in signals.pods if pod.ready_for is not None and pod.ready_for >= warm]
    fresh = [pod for pod in signals.pods if pod.validity in (Validity.FRESH, Validity.ZERO)]
    speaking = len(fresh) if signals.pods else signals.replicas.ready
    return Trust(speaking, _distrust(signals, len(expected), len(fresh)), _frozen(signals))


def at_ease(signals: Signals) -> bool:
    """Whether every replica serves, and no queue is left at the window's end."""
    if not 0 < signals.replicas.ready == signals.knobs.replicas:
        return False
    queue, rate = signals.queue_depth.known_or(0.0), signals.arrivals.known_or(0.0)
    return queue <= max(LEAST_BACKLOG, BACKLOG * rate * signals.window_seconds)


def steady(signals: Signals) -> bool:
    """Whether latencies are of these knobs: every replica serves, and no queue is left of what was before, or was."""
    if not at_ease(signals):
        return False
    ready = signals.replicas.ready
    queue, rate = signals.queue_depth.known_or(0.0), signals.arrivals.known_or(0.0)
    latency, running = signals.latency.mean.known, signals.running.known
    if latency is None:
        return True
    if (signals.completions.known_or(rate) - rate) * signals.window_seconds > LEFT * rate * latency + FEW:
        return False
    if running is None:
        return True
    return rate * latency <= DRAINED * (queue + running + LEAST_BACKLOG * ready)


def _distrust(signals: Signals, expected: int, fresh: int) -> str:
    if signals.fault:  # what was read before it began looks fresh for a while, and counts too little
        return signals.fault
    if signals.contradictions:
        return f"the signals contradict each other: {'; '.join(signals.contradictions)}"
    if signals.pods and expected and fresh <= QUORUM * expected:
        missing = sorted(
            f"{pod.name} ({pod.validity.lower()})"
            for pod in signals.pods
            if pod.validity not in (Validity.FRESH, Validity.ZERO)
        )
        return f"only {fresh} of {expected} replicas have fresh figures; without: {', '.join(missing[:5])}"
    if signals.arrivals.validity is Validity.STALE:
        return f"the newest arrivals are {signals.arrivals.age:.0f} s old"
    if signals.arrivals.known is None:
        return "arrivals are not measured"
    return ""


_WORDS: Final = {
    UnderWay.ROLLOUT: "a rollout is under way",
    UnderWay.DRAIN: "a replica drains",
    UnderWay.USER_CHANGE: "somebody changes the service",
    UnderWay.LIVE_CHANGE: "a change has not reached every replica yet",
    UnderWay.LIVE_FAILURE: "a replica did not take a change",
}


def _frozen(signals: Signals) -> str:
    return " and ".join(_WORDS[one] for one in signals.under_way)
