"""Bursts that are over before a scrape could count them, known by what they do: objectives missed at little load.

What can be counted is in the model (`burst`). Of the rest the mean rate tells nothing, and a replica more is the only
remedy: a replica takes minutes to start and such a burst seconds, so that it has to be there before.
"""

from __future__ import annotations

from math import isfinite
from typing import Annotated, Final

from pydantic import Field

from llmservice.tuning.measured import Signals
from llmservice.tuning.memory import Memory, newest
from llmservice.tuning.settings import Objective, Settings
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
"""Times in a row, each with all replicas that were asked for, after which bursts keep none: requests that are slow by
themselves, or one slow replica, would else be answered by ever more. Once is chance, since bursts differ."""
FUTILE_FOR: Final = 86400.0
"""Seconds for which that stands, as a setting that failed is not tried (`guard.BAN`) ..."""
WORSE: Final = 1.5
"""... unless with fewer replicas objectives are missed by so many times as much: then they did help."""
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
    """Replicas there were when the floor was raised last, or when it was given up."""
    raised_by: Annotated[float, Field(ge=0)] = 0.0
    """What the objective was missed by then, in objectives."""
    unhelped: Annotated[int, Field(ge=0, le=LEAST_UNHELPED)] = 0
    futile_until: float = 0.0

    def floor_at(self, now: float) -> int:
        """Replicas to keep; 0: none for this reason."""
        return self.floor if self.missed and now < self.missed[-1] + KEPT_FOR else 0


def repaired(memory: BurstsFelt, now: float) -> BurstsFelt:
    """`memory` without what lies in the future: a clock that was set back must not keep replicas for ever."""
    missed = tuple(at for at in memory.missed if at <= now)
    return memory.model_copy(update={"missed": missed, "futile_until": min(memory.futile_until, now + FUTILE_FOR)})


def feel(
    memory: BurstsFelt,
    signals: Signals,
    settings: Settings,
    objectives: tuple[Objective, ...],
    capacity: float,
    now: float,
) -> BurstsFelt:
    """`memory` after a window of a service whose replicas each hold the objectives for `capacity` requests/s."""
    supply = signals.knobs.replicas
    load = signals.arrivals.known_or(0.0) / max(1e-9, capacity * supply)
    # A burst leaves a queue that is served within the window, which is what makes it no steady one.
    settled = not signals.under_way and at_ease(signals)
    by = missed_by(signals, objectives)
    if not settled or load > MOST_LOAD or by < MISSED:
        return memory
    if now < memory.futile_until:
        if supply >= memory.raised_at or by < WORSE * memory.raised_by:
            return memory
        memory = BurstsFelt(missed=memory.missed)
    floor = memory.floor_at(now)
    missed = (*memory.missed, now)[-8:]
    if not memory.missed or now >= memory.missed[-1] + TWICE_WITHIN:
        return memory.model_copy(update={"missed": missed, "floor": floor})
    unhelped, most = memory.unhelped, settings.bounds.max_replicas
    if floor and (supply > memory.raised_at or supply >= most):
        unhelped = unhelped + 1 if by > HELPED * memory.raised_by else 0
    if unhelped >= LEAST_UNHELPED:
        given_up = {"raised_at": supply, "raised_by": by, "unhelped": 0, "futile_until": now + FUTILE_FOR}
        return memory.model_copy(update=given_up)
    more = max(1, round(min(MOST_MORE, max(MORE, by - 1.0)) * supply))
    return BurstsFelt(
        missed=missed,
        floor=max(floor, min(most, supply + more)),
        raised_at=supply,
        raised_by=by,
        unhelped=unhelped,
    )


def missed_by(signals: Signals, objectives: tuple[Objective, ...]) -> float:
    """The worst of a window's quantiles in units of its objective, of those with `LEAST_REQUESTS`; 0: none has."""
    seen = ((signals.of(one.metric).at(one.quantile), one.seconds) for one in objectives)
    ratios = (one.known_or(0.0) / most for one, most in seen if one.samples >= LEAST_REQUESTS)
    return max((ratio for ratio in ratios if isfinite(ratio)), default=0.0)
