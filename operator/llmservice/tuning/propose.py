"""What the model would have: the best setting with its replicas, what is needed of the present one, what cannot be."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from llmservice.tuning.decision import Infeasible, Prediction, Resource
from llmservice.tuning.forecast import Forecast, foretell, highest, margin
from llmservice.tuning.guard import Guard, is_banned, lock_seconds
from llmservice.tuning.learnt import Learnt, lead_of, peak_seconds
from llmservice.tuning.measured import Signals
from llmservice.tuning.optimise import Option, choose, options, replicas_for, without_infeasible
from llmservice.tuning.performance import Candidate, Performance
from llmservice.tuning.replicas import SPARE, Need
from llmservice.tuning.settings import Objective, Settings
from llmservice.tuning.tail import LEAST_SHARE, held_share, upper_factor

BEYOND: Final = 1.05
"""Of what replicas hold the objectives for, that must come before one that went just now comes back: as much as any
setting must gain (`optimise.LEAST_GAIN`)."""
BARELY_MISS: Final = 1.25
"""Of what forecasts miss by, that must be left where replicas go with nothing else to spare."""
WHOLE_MARGIN: Final = 1080.0
"""Seconds up to which the highest forecast of so long takes the whole margin of forecasts: six of the shortest
cooldowns, a choice of this tuner."""
PANIC: Final = 2.0
"""A window whose arrivals, refused ones included, are so many times what the supplied replicas hold the objectives for
(both in requests/s) is answered at once, by its worst part. Knative panics at the same multiple of what is ready
(knative.dev, "Configuring the Autoscaler", `panic-threshold-percentage`)."""
PANIC_QUEUE: Final = 2.0
"""So is a queue that those replicas would take so many times the longest objective to serve (both in seconds): whoever
is at its end misses the objective whatever is done, and whoever comes next need not. A choice of this tuner, as is the
next; `python -m benchmarks.tritune ablation` plays without them."""
PANIC_QUEUE_RATE: Final = 0.5
"""Of what those replicas hold the objectives for, above which a queue counts: below it, half is left to serve it."""
LEAST_DRAIN: Final = 60.0
"""Seconds within which a queue is to be gone, or within the longest objective if that is longer."""
LEAST_RUSHED_GAIN: Final = 0.05
"""Of the requests/s that saturate a replica, from which on more instances are worth a change in a hurry: as much as any
other setting must gain (`optimise.LEAST_GAIN`)."""


@dataclass(frozen=True)
class Proposal:
    """`here` is the setting in force, `best` the one to have; `need` is in replicas of `here`."""

    here: Option
    best: Option
    best_with_delay: Option
    """The one to have while the delay stays what it is."""
    need: Need
    demand: float
    rate: float
    feasible: tuple[Objective, ...]
    infeasible: tuple[Infeasible, ...]
    predictions: tuple[Prediction, ...]
    limiting: Resource
    headroom: float
    hurried: Candidate
    """What a panic makes of the setting in force while replicas start; the setting in force where nothing gains."""
    share: float
    """Of the objectives' seconds that predictions are held to."""
    burst_floor: int = 0
    """Replicas kept for bursts that are felt and not counted (`bursts_felt`); 0: none."""
    bursts_decide: bool = False
    """Whether that is more than the load needs."""

    @property
    def overloaded(self) -> bool:
        """Whether more comes than the replicas that serve hold objectives for."""
        return self.headroom < 0.0

    @property
    def moves(self) -> bool:
        """Whether another setting is worth its change."""
        return self.best.candidate != self.here.candidate


def propose(
    performance: Performance,
    learnt: Learnt,
    guard: Guard,
    settings: Settings,
    signals: Signals,
    here: Candidate,
    horizon: float,
) -> Proposal:
    """The proposal after a window. `horizon` is seconds until what is asked for now will have served a window."""
    rate = signals.arrivals.known_or(learnt.forecast.level)
    locked = lock_seconds(lead_of(learnt, settings))
    asked = _asked(learnt.forecast, horizon, locked, min(1.0, WHOLE_MARGIN / peak_seconds(learnt, settings)))
    demand = asked.demand
    feasible, cannot = without_infeasible(performance, settings.objectives)
    share = share_of(learnt, settings, feasible)
    found = options(performance, feasible, settings.bounds, demand, share)
    found = tuple(one for one in found if one.candidate == here or not is_banned(guard, one.candidate))
    now_option = next(one for one in found if one.candidate == here)
    best = choose(found, here)
    ready = max(1, signals.replicas.ready)
    capacity = now_option.capacity * ready
    soon = hurried(performance, found, here)
    return Proposal(
        here=now_option,
        best=best,
        best_with_delay=choose(tuple(one for one in found if one.candidate.delay == here.delay), here),
        need=_need(now_option, soon, feasible, settings, signals, asked, performance.saturation(here)),
        demand=demand,
        rate=rate,
        feasible=feasible,
        infeasible=tuple(
            Infeasible(one, f"a request alone takes {_ms(seconds)}, and {one.words} is asked for")
            for one, seconds in cannot
        ),
        predictions=tuple(
            _predict(performance, learnt, one, here, rate / ready, rate * signals.window_seconds)
            for one in settings.objectives
        ),
        limiting=_limiting(performance, now_option, cannot=bool(cannot and not feasible)),
        headroom=1.0 - rate / capacity if capacity > 0 else -1.0,
        hurried=soon.candidate,
        share=share,
    )


@dataclass(frozen=True)
class _Asked:
    """Requests/s: as they come now, as foretold with the margin, and the highest forecast of the last while.

    That has the less of the margin the longer the while is: it has noise in it that the margin is for, too. `barely` is
    that peak with a little more: what one forecast calls for and the next does not would come and go.
    `grown` is the demand foretold for when what went now could be back.
    """

    now: float
    demand: float
    peak: float
    barely: float
    grown: float


def _asked(forecast: Forecast, horizon: float, locked: float, part: float) -> _Asked:
    """`part` of the margin is left on the highest forecast: the longer that is of, the more it has in it itself."""
    miss, peak = margin(forecast), highest(forecast)
    return _Asked(
        now=forecast.level,
        demand=miss * foretell(forecast, horizon),
        peak=(1.0 + part * (miss - 1.0)) * peak,
        barely=(1.0 + BARELY_MISS * part * (miss - 1.0)) * peak,
        grown=miss * foretell(forecast, horizon + locked),
    )


def share_of(learnt: Learnt, settings: Settings, objectives: tuple[Objective, ...]) -> float:
    """Of the objectives' seconds that predictions are held to."""
    simulated = not settings.continuous
    shares = [held_share(learnt.correction(one.metric.value), simulated=simulated) for one in objectives]
    return min(shares, default=LEAST_SHARE)


def hurried(performance: Performance, found: tuple[Option, ...], here: Candidate) -> Option:
    """The option that is `here` but for more instances, which are there in seconds, with the most throughput.

    `here` itself where none has `LEAST_RUSHED_GAIN` more of it.
    """
    now = next(one for one in found if one.candidate == here)
    alike = [one for one in found if (one.candidate.delay, one.candidate.slots) == (here.delay, here.slots)]
    more = [one for one in alike if one.candidate.instances > here.instances]
    most = max(more, key=lambda one: performance.saturation(one.candidate), default=now)
    least = (1.0 + LEAST_RUSHED_GAIN) * performance.saturation(here)
    return most if performance.saturation(most.candidate) > least else now


def _need(
    here: Option,
    soon: Option,
    feasible: tuple[Objective, ...],
    settings: Settings,
    signals: Signals,
    asked: _Asked,
    saturation: float,
) -> Need:
    """Replicas that hold the demand, and those that would have held the highest demand lately with some to spare.

    `soon` is the setting that a panic makes of `here` before any replica comes; one of `here` serves
    `saturation` requests/s at most.
    """
    bounds = replace(settings.bounds, min_replicas=max(1, settings.bounds.min_replicas), max_replicas=10**6)
    if here.capacity <= 0:
        return Need(0, signals.knobs.replicas, signals.knobs.replicas)
    up = replicas_for(asked.demand, here.capacity, bounds)
    down = max(up, replicas_for((1.0 + SPARE) * asked.peak, here.capacity, bounds))
    barely = max(up, replicas_for(asked.barely, here.capacity, bounds))
    sure = replicas_for(asked.now / BEYOND, here.capacity, bounds)
    panic = _panic(here, feasible, signals, saturation)
    each = min(one.capacity for one in (here, soon) if one.capacity > 0)
    return Need(
        up=up,
        down=down,
        barely=barely,
        sure=sure,
        grown=replicas_for((1.0 + SPARE) * asked.grown, here.capacity, bounds),
        barely_grown=replicas_for(asked.grown, here.capacity, bounds),
        panic=max(bounds.min_replicas, math.ceil(panic / each)) if panic else 0,
    )


def _panic(here: Option, feasible: tuple[Objective, ...], signals: Signals, saturation: float) -> float:
    """Requests/s to ask replicas for after this window; 0 where there is no panic.

    Its worst part, and what waits: a queue is served by what is over of the capacity, so it counts as more rate. So
    does what piles up while replicas start, which is to be gone after as long again. All is asked for at once: what is
    asked for a window later serves a window later.
    """
    rate = signals.arrivals.known_or(0.0)
    supplied = max(1, signals.replicas.supplied)
    supply = supplied * here.capacity
    queue = signals.queue_depth.known_or(0.0)
    patience = max((one.seconds for one in feasible), default=math.inf)
    refused = signals.rejections.known_or(0.0)
    waits = queue > PANIC_QUEUE * patience * supply and rate > PANIC_QUEUE_RATE * supply
    if rate + refused < PANIC * supply and not waits and refused <= 0:
        return 0.0
    parts = signals.arrival_counts
    worst = max(rate, max(parts) * len(parts) / signals.window_seconds) if parts else rate
    piles_up = max(0.0, rate - saturation * supplied)
    return worst + refused + queue / max(LEAST_DRAIN, patience) + piles_up


def _predict(
    performance: Performance, learnt: Learnt, objective: Objective, here: Candidate, rate: float, requests: float
) -> Prediction:
    """The quantile at `rate` of a replica, and its bound for a window of `requests` over all replicas.

    Requests that are inside together are slow together, so that they count as one (Little's law says how many).
    """
    seconds = performance.quantile(here, objective.metric, objective.quantile, rate)
    seconds = min(seconds, 1e6)
    correction = learnt.correction(objective.metric.value)
    lower = performance.quantile(here, objective.metric, 0.9 if objective.quantile > 0.9 else 0.5, rate)
    inside = max(1.0, rate * performance.mean(here, objective.metric, rate))
    upper = seconds * upper_factor(correction, _noise(objective.quantile, seconds, lower, requests / min(inside, 1e9)))
    return Prediction(objective.metric, objective.quantile, seconds, upper)


def _noise(quantile: float, seconds: float, lower: float, independent: float) -> float:
    """Standard deviation of the logarithm of a quantile measured on so many independent requests.

    The share above it has the relative deviation sqrt(1 / (n (1 - q))), and a tail that falls exponentially between
    the lower quantile (0.9, or the median) and this one turns that into seconds.
    """
    if not 0 < lower < seconds:
        return 0.0
    tail = math.log(seconds / lower) / math.log((0.1 if quantile > 0.9 else 0.5) / (1.0 - quantile))
    return tail * math.sqrt(1.0 / max(1.0, independent * (1.0 - quantile)))


def _limiting(performance: Performance, here: Option, *, cannot: bool) -> Resource:
    if cannot:
        return Resource.OBJECTIVE
    return Resource.REPLICAS if here.capped else performance.limiting(here.candidate)


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms"
