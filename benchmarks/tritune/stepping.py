"""W2: half the load, twice the load, half again; and a plain doubling, for how bad it gets until replicas are there."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import numpy as np

from benchmarks.tritune.best_setting import best as best_setting
from benchmarks.tritune.best_setting import every
from benchmarks.tritune.cell import Cell, Numbers, Scope, played
from benchmarks.tritune.contest import Contest
from benchmarks.tritune.played import Played, reversals
from benchmarks.tritune.policies import compete, policies
from benchmarks.tritune.questions import NORMAL, dynamic
from llmservice.tuning.simulator.kinds import DYNAMIC
from llmservice.tuning.simulator.load import Load, load_of, poisson
from llmservice.tuning.simulator.outcome import MINUTE
from llmservice.tuning.simulator.question import Question
from llmservice.tuning.simulator.run import Tuner
from llmservice.tuning.simulator.workloads import steps

LENGTH: Final = 3600.0
BASE: Final = 0.9
"""Of one accelerator's capacity: 0.45, 1.8 and 0.45 of it."""
LEAD: Final = 180.0
MOST: Final = 6
TRAINING: Final = 1000
"""The seed on which baselines are tuned."""


def cells(scope: Scope) -> Iterator[Cell]:
    """W2 with everybody, the doubling with the tuner."""
    for seed in range(scope.seeds):
        yield from (Cell(seed, "W2", "", policy) for policy in policies(continuous=False))
        yield Cell(seed, "doubling", "", "tuner")
        yield Cell(seed, "doubling", "spare", "tuner")


def play(scope: Scope, cell: Cell) -> Numbers:
    """One contestant, or the doubling."""
    if cell.workload == "doubling":
        return doubled(cell.seed, spare=cell.variant == "spare")
    contest = Contest(
        asked(cell.seed),
        asked(TRAINING),
        learn=lambda name, find: played(scope, Cell(0, "W2", "", name), "stepping", find),
    )
    if cell.tuner:
        found = contest.judged(Tuner(contest.question.settings), contest.question.first_knobs(1), record=True)
        return {**found.numbers, **settled(found, cell.seed)}
    return compete(cell.policy, contest)


def asked(seed: int) -> Question:
    """W2 of a seed."""
    return dynamic(_load(BASE * DYNAMIC.capacity, seed, LENGTH), lead=LEAD, most=MOST, seed=seed)


@lru_cache(maxsize=2)
def _load(base: float, seed: int, length: float) -> Load:
    """Eight million requests: a seed's and the training's are made once for all who compete in a row."""
    return steps(base, seed, length)


def settled(found: Played, seed: int) -> Numbers:
    """How soon and how well it follows the steps.

    Met: but for the lead time and two windows after each step. Seconds from the step up until enough replicas for it
    were asked for, until they serve, and until every window's p99 stays within the objective.
    """
    run = found.run
    random = np.random.default_rng([seed, 22])
    trial = load_of(poisson(2 * BASE * DYNAMIC.capacity, 60.0, random), 60.0, random)
    enough = best_setting(every(asked(seed), trial), NORMAL[0].seconds)
    assert enough is not None
    after = [window for window in run.windows if LENGTH < window.end <= 2 * LENGTH]
    slow = [window.end for window in after if not window.p99[0] <= NORMAL[0].seconds]
    wanted = [
        at for at, count in run.tally.replica_path if LENGTH <= at < 2 * LENGTH and count >= enough.knobs.replicas
    ]
    grace = LEAD * 1.2 + 2 * 30.0
    parts = [(0.0 if start == 0 else start + grace, start + LENGTH) for start in (0.0, LENGTH, 2 * LENGTH)]
    requests = slow_ones = 0.0
    for start, end in parts:
        part = slice(int(np.ceil(start / MINUTE)), int(end / MINUTE))
        requests += float(run.judge.requests[part].sum())
        slow_ones += float(run.judge.slow[part].sum())
    within = 4 * max(LEAD, 180.0)
    paths = (run.tally.replica_path, run.tally.instance_path, run.tally.delay_path)
    changes = [at for at, _ in run.tally.instance_path if LENGTH <= at < 2 * LENGTH]
    return {
        "met_after_lead": 100 * (1.0 - slow_ones / requests),
        "settle_asked": (wanted[0] if wanted else 2 * LENGTH) - LENGTH,
        "settle_ready": next((one.end for one in after if one.ready >= enough.knobs.replicas), 2 * LENGTH) - LENGTH,
        "settle_in_place": (changes[0] - LENGTH) if changes else 0.0,
        "within_again": (slow[-1] if slow else LENGTH) - LENGTH,
        "oscillations": float(sum(reversals(path, within) for path in paths)),
    }


def doubled(seed: int, *, spare: bool) -> Numbers:
    """A settled service whose load doubles at once; with `spare`, one replica more than it wants is kept warm."""
    random = np.random.default_rng([seed, 23])
    rate = 0.7 * DYNAMIC.capacity
    start, seconds = 3600.0, 5400.0
    times = np.concatenate((poisson(rate, start, random), start + poisson(2 * rate, seconds - start, random)))
    load = load_of(times, seconds, random)
    question = dynamic(load, lead=LEAD, most=MOST, least=2 if spare else 1, seed=seed)
    run = question.play(Tuner(question.settings), question.first_knobs(1), record=True)
    ratios = [(window.end, window.p99[0] / NORMAL[0].seconds) for window in run.windows if window.end > start]
    finite = [ratio for _, ratio in ratios if np.isfinite(ratio)]
    above = [end for end, ratio in ratios if not ratio <= 3.0]
    return {
        "worst_objectives": max(finite, default=0.0),
        "seconds_above_three": (above[-1] - start) if above else 0.0,
    }
