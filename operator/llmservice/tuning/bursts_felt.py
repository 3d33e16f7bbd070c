"""Bursts that are over before a scrape could count them, known by what they do: objectives missed at little load.

What can be counted is in the model (`burst`). Of the rest the mean rate tells nothing, and a replica more is the only
remedy: a replica takes minutes to start and such a burst seconds, so that it has to be there before.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from llmservice.tuning.measured import Signals
from llmservice.tuning.memory import Memory, newest
from llmservice.tuning.settings import Objective
from llmservice.tuning.trust import at_ease

MISSED: Final = 1.25
"""Of an objective: quantiles of a histogram are no finer than its buckets."""
MOST_LOAD: Final = 0.7
"""Of what the replicas hold objectives for, up to which a miss is none of the mean rate."""
LEAST_REQUESTS: Final = 100
"""In a window whose 99th percentile says something."""
TWICE_WITHIN: Final = 1800.0
"""Seconds within which it must happen twice: once is chance."""
KEPT_FOR: Final = 3600.0
"""Seconds after the last miss for which replicas stay."""
MORE: Final = 0.25
MOST_MORE: Final = 1.0
"""Of the replicas there are, kept beyond them, one at least: what the objective was missed by, within these limits. The
queue that a burst leaves is served the sooner by as many more replicas as share it."""
HELPED: Final = 0.9
"""Of what the objective was missed by when replicas were added, above which they did not help."""
LEAST_UNHELPED: Final = 2
"""Times in a row, each with all replicas that were asked for, after which no more are: bursts differ, and one may be
larger by chance. Requests that are slow by themselves, or one slow replica, would else be answered by ever more."""
FUTILE_FOR: Final = 86400.0
"""Seconds for which bursts then add none, as for a setting that failed (`guard.BAN`)."""
MOST_FLOOR: Final = 1_000_000
"""More replicas than any service has: a memory that says so is none."""


def told(floor: int) -> str:
    """Why `floor` replicas are kept, in words."""
    many = "replica is" if floor == 1 else "replicas are"
    return f"{floor} {many} kept for bursts too short to be counted, by which objectives were missed within the hour"


class BurstsFelt(Memory):
    """When objectives were missed by bursts, and the replicas that are kept for the next one."""

    missed: Annotated[tuple[float, ...], newest(8)] = ()
    floor: Annotated[int, Field(ge=0, le=MOST_FLOOR)] = 0
    raised_at: Annotated[int, Field(ge=0, le=MOST_FLOOR)] = 0
    """Replicas there were when the floor was raised last."""
    raised_by: Annotated[float, Field(ge=0)] = 0.0
    """What the objective was missed by then, in objectives."""
    unhelped: Annotated[int, Field(ge=0)] = 0
    futile_until: float = 0.0

    def floor_at(self, now: float) -> int:
        """Replicas to keep; 0: none for this reason."""
        return self.floor if self.missed and now < self.missed[-1] + KEPT_FOR else 0


def repaired(memory: BurstsFelt, now: float) -> BurstsFelt:
    """`memory` without what lies in the future: a clock that was set back must not keep replicas for ever."""
    missed = tuple(at for at in memory.missed if at <= now)
    return memory.model_copy(update={"missed": missed, "futile_until": min(memory.futile_until, now + FUTILE_FOR)})


def feel(
    memory: BurstsFelt, signals: Signals, objectives: tuple[Objective, ...], capacity: float, now: float
) -> BurstsFelt:
    """`memory` after a window of a service whose replicas each hold the objectives for `capacity` requests/s."""
    supply = signals.knobs.replicas
    load = signals.arrivals.known_or(0.0) / max(1e-9, capacity * supply)
    # A burst leaves a queue that is served within the window, which is what makes it no steady one.
    settled = not signals.under_way and at_ease(signals)
    by = missed_by(signals, objectives)
    if not settled or load > MOST_LOAD or by < MISSED or now < memory.futile_until:
        return memory
    again = bool(memory.missed) and now < memory.missed[-1] + TWICE_WITHIN
    missed = (*memory.missed, now)[-8:]
    floor = memory.floor_at(now)
    if not again:
        return BurstsFelt(missed=missed, floor=floor)
    unhelped = memory.unhelped
    if floor and supply > memory.raised_at:
        unhelped = unhelped + 1 if by > HELPED * memory.raised_by else 0
    if unhelped >= LEAST_UNHELPED:
        return memory.model_copy(update={"unhelped": 0, "futile_until": now + FUTILE_FOR})
    more = max(1, round(min(MOST_MORE, max(MORE, by - 1.0)) * supply))
    return BurstsFelt(missed=missed, floor=max(floor, supply + more), raised_at=supply, raised_by=by, unhelped=unhelped)


def missed_by(signals: Signals, objectives: tuple[Objective, ...]) -> float:
    """The worst of a window's quantiles in units of its objective, of those with `LEAST_REQUESTS`; 0: none has."""
    seen = ((signals.of(one.metric).at(one.quantile), one.seconds) for one in objectives)
    return max((one.known_or(0.0) / most for one, most in seen if one.samples >= LEAST_REQUESTS), default=0.0)
