"""W2: half the load, twice the load, half again; and a plain doubling, for how bad it gets until replicas are there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.tritune.exhaustive import best as best_setting
from benchmarks.tritune.exhaustive import every, measure
from benchmarks.tritune.played import reversals
from benchmarks.tritune.questions import NORMAL, dynamic
from llmservice.tuning.simulator.kinds import DYNAMIC
from llmservice.tuning.simulator.load import Load, load_of, poisson
from llmservice.tuning.simulator.outcome import MINUTE
from llmservice.tuning.simulator.run import Run, Tuner
from llmservice.tuning.simulator.workloads import steps

LENGTH = 3600.0
BASE = 0.9
"""Of one accelerator's capacity: 0.45, 1.8 and 0.45 of it."""


@dataclass(frozen=True)
class Stepped:
    """One seed."""

    run: Run
    tuner: Tuner
    attainment: float
    """Share within the objective, but for the lead time and two windows after each step."""
    settle_up: float
    """Seconds from the step up until enough replicas for it were asked for."""
    settle_ready: float
    """Seconds from the step up until enough replicas serve; what piled up on the old ones meanwhile stays with them."""
    within_again: float
    """Seconds from the step up until every window's p99 stays within the objective: the pile is gone."""
    oscillations: int


def stepped(seed: int, lead: float = 180.0) -> Stepped:
    """W2 on kind A."""
    rate = BASE * DYNAMIC.capacity
    question = dynamic(steps(rate, seed, LENGTH), lead=lead, most=6, seed=seed)
    random = np.random.default_rng([seed, 22])
    trial = load_of(poisson(2 * rate, 60.0, random), 60.0, random)
    enough = best_setting(every(question, trial), NORMAL[0].seconds)
    assert enough is not None
    controller = Tuner(question.settings, keep=True)
    run = question.play(controller, question.first_knobs(1), record=True)
    after = [window for window in run.windows if LENGTH < window.end <= 2 * LENGTH]
    slow = [window.end for window in after if not window.p99[0] <= NORMAL[0].seconds]
    asked = [at for at, count in run.tally.replica_path if LENGTH <= at < 2 * LENGTH and count >= enough.knobs.replicas]
    grace = lead * 1.2 + 2 * controller.period
    parts = [(0.0 if start == 0 else start + grace, start + LENGTH) for start in (0.0, LENGTH, 2 * LENGTH)]
    requests = slow_ones = 0.0
    for start, end in parts:
        part = slice(int(np.ceil(start / MINUTE)), int(end / MINUTE))
        requests += float(run.judge.requests[part].sum())
        slow_ones += float(run.judge.slow[part].sum())
    cooldowns = 4 * max(lead, 180.0)
    return Stepped(
        run=run,
        tuner=controller,
        attainment=1.0 - slow_ones / requests,
        settle_up=(asked[0] if asked else 2 * LENGTH) - LENGTH,
        settle_ready=next((one.end for one in after if one.ready >= enough.knobs.replicas), 2 * LENGTH) - LENGTH,
        within_again=(slow[-1] if slow else LENGTH) - LENGTH,
        oscillations=reversals(run.tally.replica_path, cooldowns)
        + reversals(run.tally.instance_path, cooldowns)
        + reversals(run.tally.delay_path, cooldowns),
    )


@dataclass(frozen=True)
class Doubled:
    """After the load doubled."""

    worst: float
    """Largest p99 of a window, in objectives."""
    seconds_above_three: float
    """How long p99 was above three objectives."""
    run: Run


def doubled(seed: int, lead: float = 180.0) -> Doubled:
    """A settled service whose load doubles at once."""
    random = np.random.default_rng([seed, 23])
    rate = 0.7 * DYNAMIC.capacity
    start, seconds = 3600.0, 5400.0
    times = np.concatenate((poisson(rate, start, random), start + poisson(2 * rate, seconds - start, random)))
    question = dynamic(load_of(times, seconds, random), lead=lead, most=6, seed=seed)
    run = question.play(Tuner(question.settings), question.first_knobs(1), record=True)
    ratios = [(window.end, window.p99[0] / NORMAL[0].seconds) for window in run.windows if window.end > start]
    finite = [ratio for _, ratio in ratios if np.isfinite(ratio)]
    above = [end for end, ratio in ratios if not ratio <= 3.0]
    return Doubled(max(finite, default=0.0), (above[-1] - start) if above else 0.0, run)


def two_instances(seed: int) -> tuple[str, str]:
    """The coupled case: where two instances and a delay together are best. (optimum, what the tuner reached)."""
    rate, seconds = 700.0, 7200.0
    random = np.random.default_rng([seed, 24])
    load = load_of(poisson(rate, seconds, random), seconds, random)
    question = dynamic(load, (NORMAL[0].__class__(NORMAL[0].metric, 0.99, 0.085),), most=3, seed=seed)
    trial = Load(
        load.times[:60_000], load.input_tokens[:60_000], load.output_tokens[:60_000], float(load.times[60_000])
    )
    optimum = best_setting(every(question, trial), 0.085)
    assert optimum is not None
    run = question.play(Tuner(question.settings), question.first_knobs(2), record=True)
    return optimum.words, measure(question, trial, run.windows[-1].knobs).words
