"""How many replicas to ask for: up ahead of demand, down only when it will hold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from llmservice.tuning.decision import Knob, counted
from llmservice.tuning.guard import Guard, cooldown, last_change, lock_seconds, not_fewer
from llmservice.tuning.settings import Bounds

SPARE: Final = 0.06
"""Asked for beyond what is needed when replicas are added: the next addition comes later for it."""
FEWER: Final = 0.10
"""Share of replicas that must be too many for `guard.agreed_seconds`, and never outgrown, before any goes ..."""
FAR_FEWER: Final = 0.35
FAR_FEWER_SECONDS: Final = 600.0
"""... or so many for so long, where that is less, and more than one: half of two is one, which the next wave wants."""
PAUSE_SECONDS: Final = 300.0
"""Without any window that counts replicas (a rollout, another owner, mode `Off`, no trusted figure), after which every
wait for fewer begins anew: two and a half of the longest windows there are."""
BARELY_SECONDS: Final = 1800.0
"""Seconds for which `Need.barely` must have been fewer replicas than there are, without any change of them, until they
go to it and not to `Need.down`: a load that steady needs nothing to spare. A choice of this tuner."""
CONSOLIDATED: Final = 0.9
"""Most of a replica's capacity in use after one was removed, by the rate of now (dynamo#9294: a fixed threshold without
this check flaps between one and two under constant load)."""
BIG_STEP: Final = 1.3
CONSOLIDATED_FAR: Final = 0.88
STEP_UP: Final = 0.5
STEP_DOWN: Final = 0.25
LEAST_STEP: Final = 2
PANIC_STEP: Final = 3.0
"""Of the replicas there are, added at once in a panic: what is missing is late already."""
LEAST_PANIC_STEP: Final = 4
"""Replicas that may be added at once in a panic, however few there are (a HorizontalPodAutoscaler adds as many unless
told otherwise; kubernetes.io, "Horizontal Pod Autoscaling", default behavior)."""
SMALL: Final = 4
"""Up to here one replica is a large share, and one that is not needed for long goes whatever share it is."""


@dataclass(frozen=True)
class Need:
    """Counts of replicas by purpose, each of a replica that holds the objectives for some requests/s; see `propose`."""

    up: int
    """For the rate foretold for when a replica asked for now will have served a window, times what 95 % of forecasts
    miss by: fewer are too few."""
    down: int
    """For the highest forecast of the last while (`learnt.peak_seconds`), with the less of the margin the longer that
    is, and `SPARE` more; never below `up`. More are too many."""
    barely: int
    """As `down`, but instead of `SPARE` with the forecasts' margin widened by a quarter: with little to spare where
    forecasts hardly miss. Never below `up`."""
    sure: int = 0
    """For what comes now, less `propose.BEYOND`: what is needed whatever any forecast says."""
    grown: int = 0
    """As `down` for what the trend leads to in the time in which what went may not come back (`guard.lock_seconds`) and
    a cold start more. No replica goes that this will want."""
    barely_grown: int = 0
    """As `grown` without `SPARE`: what a load that has long been steady may still grow to."""
    panic: int = 0
    """For this very window's worst part, the queue it left and what piles up until replicas serve; 0: no panic."""

    def at_least(self, floor: int) -> Need:
        """The same with `floor` replicas for every purpose but panic."""
        return Need(
            up=max(floor, self.up),
            down=max(floor, self.down),
            barely=max(floor, self.barely),
            sure=max(floor, self.sure),
            grown=max(floor, self.grown),
            barely_grown=max(floor, self.barely_grown),
            panic=self.panic,
        )


@dataclass(frozen=True)
class Pace:
    """Seconds: the cold start, and for how long fewer replicas must have been enough (`guard.agreed_seconds`)."""

    lead: float
    agreed: float


@dataclass(frozen=True)
class Wanted:
    """The replicas to have, the guard's memory, why, and when fewer might do (None: not foreseen)."""

    replicas: int
    guard: Guard
    reason: str
    not_before: float | None = None
    capped: bool = False
    long: bool = False
    """Whether fewer have been just enough for `BARELY_SECONDS`."""


def decide_replicas(
    guard: Guard, need: Need, supply: int, bounds: Bounds, now: float, pace: Pace, veto: str, room: int | None
) -> Wanted:
    """`supply` counts replicas on their way. `veto` says why none may go; `room` is how many more have a place."""
    paused = guard.considered_at is not None and now > guard.considered_at + PAUSE_SECONDS
    more = max(need.up, need.panic) > supply
    if more or paused:
        guard = not_fewer(guard)
    guard = guard.model_copy(update={"considered_at": now, "more_windows": guard.more_windows + 1 if more else 0})
    if more:
        return _more(guard, need, supply, bounds, now, pace.lead, room)
    return _fewer(guard, need, supply, bounds, now, pace, veto)


def _more(guard: Guard, need: Need, supply: int, bounds: Bounds, now: float, lead: float, room: int | None) -> Wanted:
    last = last_change(guard, Knob.REPLICAS)
    went = last is not None and last.new < last.old and now < last.at + lock_seconds(lead)
    if went and need.panic <= supply and (need.sure <= supply or guard.more_windows < 2):
        # To bring back what went just now takes twice the evidence: two windows, and not what may come but what does.
        return Wanted(supply, guard, "more replicas may be needed; some went just now, so it must be sure")
    target = max(need.up + math.floor(SPARE * need.up + 0.5), need.panic)
    least, share = (LEAST_PANIC_STEP, PANIC_STEP) if need.panic > supply else (LEAST_STEP, STEP_UP)
    most = supply + max(least, math.ceil(share * supply))
    if room is not None:
        most = min(most, supply + room)
    allowed = min(target, most, bounds.max_replicas)
    if allowed <= supply:
        why = "no accelerator is free" if room is not None and supply + room <= supply else "maxReplicas is reached"
        return Wanted(supply, guard, f"{_needed(max(need.up, need.panic))} and {why}", capped=True)
    word = "at once" if need.panic >= need.up else "when they are ready"
    return Wanted(allowed, guard, f"{_needed(max(need.up, need.panic))} {word}", capped=allowed < need.up)


def _fewer(guard: Guard, need: Need, supply: int, bounds: Bounds, now: float, pace: Pace, veto: str) -> Wanted:
    barely = max(need.barely, bounds.min_replicas, 1)
    since = _since(guard.barely_since, now) if barely < supply else None
    guard = guard.model_copy(update={"barely_since": since})
    long = since is not None and now >= since + BARELY_SECONDS
    target = barely if long else max(need.down, bounds.min_replicas, 1)
    surplus = (supply - target) / max(1, supply)
    enough = long or surplus >= FEWER - 1e-9 or (supply <= SMALL and target < supply)
    guard = guard.model_copy(
        update={
            "fewer_since": (guard.fewer_since if guard.fewer_since is not None else now) if enough else None,
            "far_fewer_since": (guard.far_fewer_since if guard.far_fewer_since is not None else now)
            if surplus >= FAR_FEWER and supply - target > 1
            else None,
        }
    )
    if not enough or target >= supply:
        return Wanted(supply, guard, f"{need.up} of {supply} replicas are needed")
    left = max(target, supply - max(1, math.floor(STEP_DOWN * supply)))
    if is_outgrown(need, left, long=long):
        guard = guard.model_copy(update={"fewer_since": None, "far_fewer_since": None})
        return Wanted(supply, guard, f"{counted(target, 'replica')} would do, but more and more requests come")
    if veto:
        return Wanted(supply, guard, f"{counted(target, 'replica')} would do, but {veto}")
    last = last_change(guard, Knob.REPLICAS)
    times = [now if long else _since(guard.fewer_since, now) + pace.agreed]
    if guard.far_fewer_since is not None:
        times.append(guard.far_fewer_since + FAR_FEWER_SECONDS)
    ready_at = min(times)
    if last is not None:
        added = last.new > last.old
        ready_at = max(ready_at, last.at + (lock_seconds(pace.lead) if added else cooldown(Knob.REPLICAS, pace.lead)))
    if now < ready_at:
        return Wanted(supply, guard, f"{counted(target, 'replica')} would do, if that lasts", not_before=ready_at)
    has = "has" if target == 1 else "have"
    return Wanted(left, guard, f"{counted(target, 'replica')} {has} been enough for long", long=long)


def _needed(count: int) -> str:
    return f"{counted(count, 'replica')} {'is' if count == 1 else 'are'} needed"


def is_outgrown(need: Need, left: int, *, long: bool) -> bool:
    """Whether the load grows so fast that `left` replicas will be too few while what went may not come back.

    With nothing to spare where fewer have `long` been just enough.
    """
    return (need.barely_grown if long else need.grown) > left


def _since(moment: float | None, now: float) -> float:
    return now if moment is None else moment


def consolidates(rate: float, capacity: float, supply: int, replicas: int, *, long: bool) -> bool:
    """Whether `replicas` instead of `supply` still have room at `rate`: what those that go leave behind is counted.

    The further a replica's load grows by it, the less is known of it there, and the more room is asked for, unless the
    load has been steady for `long`: then what forecasts miss by, which the replicas that are needed hold, is enough.
    """
    if long:
        return rate <= capacity * replicas
    most = CONSOLIDATED if supply <= BIG_STEP * replicas else CONSOLIDATED_FAR
    return rate <= most * capacity * replicas
