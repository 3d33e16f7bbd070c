"""One load and everybody who competes on it: the tuner, what people use instead (B0 to B9), and hindsight (O1, O2).

What a baseline has to be told (a target, a number of replicas) is chosen on `training`: the cheapest value that keeps
violated minutes under the goal, or the one with the fewest violated minutes where none does. Everybody is judged on
`question` from `start` on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Final

import numpy as np

from benchmarks.tritune import baselines
from benchmarks.tritune.best_setting import DELAYS
from benchmarks.tritune.cell import Numbers
from benchmarks.tritune.oracles import (
    TRIAL_REPLICAS,
    TRIAL_SECONDS,
    Capacity,
    LeadTimeOracle,
    capacity,
    clairvoyant_hours,
    needs,
)
from benchmarks.tritune.played import Played, play
from llmservice.api.knobs import Knobs
from llmservice.tuning.simulator.kinds import BatchKind, Kind
from llmservice.tuning.simulator.load import Tokens
from llmservice.tuning.simulator.outcome import MINUTE
from llmservice.tuning.simulator.question import Question
from llmservice.tuning.simulator.run import Controller, Fixed, Tuner

MARGINS: Final = (1.0, 1.05, 1.1, 1.2, 1.35, 1.6, 2.0, 3.0, 5.0)
"""Of capacity that the lead-time oracle may spare, the cheapest first."""
WARM: Final = 600.0
"""Seconds of training that are not judged."""
SHORT_TRIAL: Final = 3 * MINUTE
"""Seconds for which settings of a batched engine are compared, the shortest that can be judged: on one replica that is
some hundred thousand requests."""


Learn = Callable[[str, Callable[[], Numbers]], Numbers]


def _now(name: str, find: Callable[[], Numbers]) -> Numbers:
    _ = name
    return find()


@dataclass(frozen=True)
class Contest:
    """One load with one seed. `goal` is the share of violated minutes that is allowed; `tokens` the lengths."""

    question: Question
    training: Question
    start: float = 0.0
    goal: float = 0.01
    tokens: Tokens | None = None
    learn: Learn = _now
    """Keeps what is the same for all seeds, by name."""

    @property
    def kind(self) -> Kind:
        """The engine."""
        return self.question.kind

    @cached_property
    def usual(self) -> Knobs:
        """What a service starts with."""
        return self.question.first_knobs()

    @cached_property
    def table(self) -> Capacity:
        """What replicas take with the usual knobs."""
        return Capacity(self._each(self.usual), self.question.max_replicas)

    @cached_property
    def best(self) -> Knobs:
        """The setting whose replicas take most."""
        if not isinstance(self.kind, BatchKind):
            return self.usual
        alone = self.kind.batch_seconds(1)
        longest = min(one.seconds for one in self.question.objectives) / 4
        choices = [
            self.usual.model_copy(
                update={"engine_instances": count, "max_queue_delay": timedelta(seconds=share * alone)}
            )
            for count in range(1, self.kind.memory_instances + 1)
            for share in DELAYS
            if share * alone <= longest
        ]
        return max(choices, key=self._each)

    @cached_property
    def best_table(self) -> Capacity:
        """What replicas take with the best setting."""
        return self.table if self.best == self.usual else Capacity(self._each(self.best), self.question.max_replicas)

    def _each(self, knobs: Knobs) -> float:
        batches = isinstance(self.kind, BatchKind)
        seconds, replicas = (SHORT_TRIAL, 1) if batches else (TRIAL_SECONDS, TRIAL_REPLICAS)

        def find() -> Numbers:
            objectives = self.question.objectives
            each = capacity(self.kind, objectives, knobs, self.tokens, seconds=seconds, replicas=replicas)
            return {"each": each}

        delay = 1e6 * knobs.max_queue_delay.total_seconds()
        return float(self.learn(f"capacity {knobs.engine_instances} {delay:.0f}", find)["each"])  # type: ignore[arg-type]

    def first(self, question: Question) -> Knobs:
        """As many replicas as the first five minutes need, and one more: a service that is there already."""
        rate = float(question.load.rates(min(300.0, question.load.seconds))[0])
        count = min(question.max_replicas, self.table.needed(rate) + 1)
        return self.usual.model_copy(update={"replicas": count})

    def judged(self, controller: Controller, knobs: Knobs | None = None, *, record: bool = False) -> Played:
        """`controller` on what counts."""
        return play(self.question, controller, knobs or self.first(self.question), start=self.start, record=record)

    def fixed(self, knobs: Knobs) -> Played:
        """Knobs that nobody moves."""
        return self.judged(Fixed(knobs), knobs)

    def cheapest(self, make: Callable[[float], tuple[Controller, Knobs]], choices: Sequence[float]) -> float:
        """The first of `choices`, from the cheapest to the dearest, that holds the goal in training; else the last."""
        low, high = 0, len(choices) - 1
        while low < high:
            middle = (low + high) // 2
            controller, knobs = make(choices[middle])
            if play(self.training, controller, knobs, start=WARM).violated <= self.goal:
                high = middle
            else:
                low = middle + 1
        return choices[low]


def tuner(contest: Contest, *, record: bool = False) -> Played:
    """The real one."""
    return contest.judged(Tuner(contest.question.settings), record=record)


def lead_oracle(contest: Contest) -> Played:
    """O2 with the smallest margin that keeps it under the goal: the cheapest honest one."""
    best: Played | None = None
    for margin in MARGINS:
        needed = needs(contest.question.load, contest.best_table, margin)
        start = contest.best.model_copy(update={"replicas": int(needed[:5].max())})
        found = contest.judged(LeadTimeOracle(needed, contest.question.times.cold_start), start)
        if best is None or found.violated < best.violated:
            best = found
        if found.violated <= contest.goal:
            return found
    assert best is not None
    return best


def clairvoyant(contest: Contest) -> Numbers:
    """O1: at each minute what that minute needs; hours alone, since nobody can do it."""
    needed = needs(contest.question.load, contest.best_table, 1.0)[int(np.ceil(contest.start / MINUTE)) :]
    return {"hours": clairvoyant_hours(needed)}


def _fixed(contest: Contest, replicas: object, knobs: Knobs | None = None) -> Played:
    assert isinstance(replicas, (int, float, np.integer))
    return contest.fixed((knobs or contest.usual).model_copy(update={"replicas": max(1, int(replicas))}))


def default(contest: Contest) -> Played:
    """B0: Triton's own defaults, sized for the mean rate of the training."""
    knobs = contest.usual.model_copy(update={"max_queue_delay": timedelta(0)})
    return _fixed(contest, contest.table.needed(contest.training.load.mean_rate), knobs)


def static(contest: Contest, quantile: float) -> Played:
    """B1: the replicas that this quantile of the training's minutes needs."""
    return _fixed(contest, np.quantile(needs(contest.training.load, contest.table, 1.0), quantile, method="higher"))


def best_static(contest: Contest) -> Played:
    """B2: the best setting of a search on the simulator, with the fewest replicas that hold the goal in training."""

    def fixed(replicas: float) -> tuple[Controller, Knobs]:
        knobs = contest.best.model_copy(update={"replicas": int(replicas)})
        return Fixed(knobs), knobs

    def find() -> Numbers:
        return {"replicas": contest.cheapest(fixed, range(1, contest.question.max_replicas + 1))}

    return _fixed(contest, contest.learn("B2 replicas", find)["replicas"], contest.best)


def planner(contest: Contest) -> Played:
    """B7: with the profile of one replica."""
    each, most = contest.table.each, contest.question.max_replicas
    continuous = not isinstance(contest.kind, BatchKind)
    return contest.judged(baselines.Planner(each, baselines.profile(contest.kind), most, continuous=continuous))


def additive(contest: Contest) -> Played:
    """B8: the delay by AIMD, replicas as in B1."""
    objective = contest.question.objectives[0]
    count = np.quantile(needs(contest.training.load, contest.table, 1.0), 0.99, method="higher")
    knobs = contest.usual.model_copy(update={"replicas": max(1, int(count))})
    return contest.judged(baselines.AdditiveIncrease(objective, contest.question.max_delay), knobs)


def hill_climb(contest: Contest) -> Played:
    """B9: one knob at a time."""
    settings = contest.question.settings
    whole = isinstance(contest.kind, BatchKind)
    step = contest.kind.batch_seconds(1) / 2 if isinstance(contest.kind, BatchKind) else 0.0
    objective = contest.question.objectives[0 if whole else -1]
    climber = baselines.HillClimb(
        objective, settings.bounds.max_replicas, settings.bounds.max_instances if whole else 1, step
    )
    return contest.judged(climber)
