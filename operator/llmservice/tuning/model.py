"""From what was learnt to a model of a replica, and whether to believe it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from llmservice.api.knobs import Knobs
from llmservice.tuning.batch_model import DISAGREEMENT, disagreement, simulate
from llmservice.tuning.batcher import Setting
from llmservice.tuning.burst import dispersion, rate_factors, rate_variance
from llmservice.tuning.continuous import ContinuousModel, Demand
from llmservice.tuning.learnt import Learnt, Used, token_times
from llmservice.tuning.performance import BatchPerformance, Candidate, Performance, TokenPerformance
from llmservice.tuning.settings import Metric, Settings
from llmservice.tuning.tail import factor

DELAYS: Final = (0.0, 1.0, 1.5, 2.0)
"""Delays to consider, in units of t(1)."""
SHARED_DELAYS: Final = (1.5, 2.0)
"""Likewise, where instances share an accelerator: without a delay they split batches and all take longer."""
DELAY_STEP: Final = 0.0005
"""Delays are whole multiples of this, so that a little noise in t(1) is no other delay."""
SLO_SHARE: Final = 0.25
"""A delay never takes more than this share of the tightest latency objective."""
BURSTY: Final = 2.0
BURST_VARIANCE: Final = 0.01
"""Index of dispersion and relative variance of the rate beyond which counters by request say nothing of single batches.

A rate that drifts by some percent within a window has a high index where many requests come, and hides nothing.
"""


@dataclass(frozen=True)
class Modelled:
    """A replica's performance, and why it is not to be believed (empty: it is)."""

    performance: Performance | None
    distrust: str = ""


def model_of(learnt: Learnt, settings: Settings, knobs: Knobs) -> Modelled:
    """The model of a replica of this service. Without enough learnt, none, and why."""
    if settings.continuous:
        return _continuous(learnt, settings, knobs)
    return _batching(learnt, settings, knobs)


def candidate_of(knobs: Knobs) -> Candidate:
    """The replica's part of `knobs`."""
    return Candidate(knobs.engine_instances, knobs.max_queue_delay.total_seconds(), knobs.slots)


def _batching(learnt: Learnt, settings: Settings, knobs: Knobs) -> Modelled:
    used = learnt.used
    if used is None or not used.lines:
        return Modelled(None, "no step of the engine was counted yet")
    steps = learnt.steps_per_batch or 1.0
    whole = used.service_time.scaled(round(steps, 2)) if steps > 1.02 else used.service_time
    here = candidate_of(knobs)
    choices = _settings(whole.seconds(1), settings, here, others=used.exact)
    largest = settings.limits.max_sequences
    model = simulate(whole, largest, used.gains, choices, rate_factors(learnt.burst))
    performance = BatchPerformance(
        model=model,
        service_time=whole,
        gains=used.gains,
        largest=largest,
        slots=knobs.slots,
        steps_per_batch=steps,
        factors=_factors(learnt),
    )
    apart = disagreement(model, whole, largest)
    if apart > DISAGREEMENT:
        return Modelled(performance, f"simulation and closed form are {100 * apart:.0f} % apart")
    return Modelled(performance, "" if used.exact else _inexact(learnt, used, here))


def _inexact(learnt: Learnt, used: Used, here: Candidate) -> str:
    """Why step times from counters by request are not to be believed; empty: they are."""
    if dispersion(learnt.burst) > BURSTY and rate_variance(learnt.burst) > BURST_VARIANCE:
        return "bursts hide batch sizes from counters by request; step counters would tell"
    if here.instances > 1:
        return "counters by request do not tell what instances cost each other; step counters would"
    if not used.identified:
        return "counters by request of one load tell nothing of other batch sizes; step counters would"
    return ""


def _settings(alone: float, settings: Settings, here: Candidate, *, others: bool) -> tuple[Setting, ...]:
    """What to choose from, the setting in force included; without `others` no other count of instances."""
    bounds, limits = settings.bounds, settings.limits
    most = min(bounds.max_instances, limits.instances_in_memory)
    counts = range(min(bounds.min_instances, most), most + 1) if others else (here.instances,)
    latencies = [one.seconds for one in settings.objectives if one.metric is not Metric.PER_OUTPUT_TOKEN]
    longest = min([bounds.max_delay, *(SLO_SHARE * seconds for seconds in latencies)])
    found = {Setting(count, here.delay) for count in (*counts, here.instances)}
    for count in counts if settings.delay_binds else ():
        for units in DELAYS if count == 1 else SHARED_DELAYS:
            delay = DELAY_STEP * round(units * alone / DELAY_STEP)
            found.add(Setting(count, round(max(bounds.min_delay, min(longest, delay)), 6)))
    return tuple(sorted(found, key=lambda one: (one.instances, one.delay)))


def _continuous(learnt: Learnt, settings: Settings, knobs: Knobs) -> Modelled:
    times = token_times(learnt)
    if times is None:
        return Modelled(None, "too few steps of the engine were counted yet")
    if learnt.output_tokens is None:
        return Modelled(None, "no request was completed yet, so its length is not known")
    model = ContinuousModel(
        times=times,
        demand=Demand(learnt.input_tokens or 0.0, learnt.output_tokens),
        max_sequences=settings.limits.max_sequences,
        kv_tokens=settings.limits.kv_tokens,
        instances=knobs.engine_instances,
    )
    factors = _factors(learnt)
    here = candidate_of(knobs)
    choices = {here, here._replace(slots=_slots(model, learnt, settings, knobs, factors))}
    performance = TokenPerformance(
        model=model,
        choices=tuple(sorted(choices)),
        lookahead=settings.limits.slot_lookahead,
        peak=_peak(learnt),
        factors=factors,
    )
    return Modelled(performance)


def _slots(
    model: ContinuousModel, learnt: Learnt, settings: Settings, knobs: Knobs, factors: dict[Metric, float]
) -> int:
    """As many as the cache holds and the tokens' objective allows."""
    limits = settings.limits
    most = model.most_sequences
    each = learnt.forecast.level / max(1, knobs.replicas)
    for one in settings.objectives:
        if one.metric is Metric.PER_OUTPUT_TOKEN and model.times.step_seconds(1) < one.seconds:
            allowed = model.slots_for(0.95 * one.seconds / factors.get(one.metric, 1.0), each)
            most = min(most, allowed)
    return max(1, min(limits.max_sequences, int(most))) + limits.slot_lookahead


def _factors(learnt: Learnt) -> dict[Metric, float]:
    return {metric: factor(learnt.correction(metric.value)) for metric in Metric}


def _peak(learnt: Learnt) -> float:
    """The rate that all but 1 % of requests meet at most, over the mean."""
    left, highest = 0.01, 1.0
    for share, times in sorted(rate_factors(learnt.burst), key=lambda one: -one[1]):
        highest = times
        if share * times > left:
            break
        left -= share * times
    return max(1.0, highest if math.isfinite(highest) else 1.0)
