"""W7: fourteen days of a service's rates on kind B, judged on the second half.

Whatever a baseline has to be told (a target, a number of replicas) is chosen on the first half: the cheapest value that
keeps violated minutes under the goal, or the one with the fewest violated minutes where none does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from benchmarks.tritune.baselines import (
    HorizontalAutoscaler,
    KnativeAutoscaler,
    Planner,
    SaturationAutoscaler,
    pending,
    queue_to_compute,
)
from benchmarks.tritune.oracles import Capacity, LeadTimeOracle, capacity, clairvoyant_hours, needs
from benchmarks.tritune.played import Played, play
from benchmarks.tritune.questions import CHAT, tokens
from llmservice.api.knobs import Knobs
from llmservice.tuning.simulator.kinds import LLAMA_8B_A100
from llmservice.tuning.simulator.load import Inside, RateSeries
from llmservice.tuning.simulator.question import Question, limits_of
from llmservice.tuning.simulator.run import Controller, Fixed, Tuner
from llmservice.tuning.simulator.workloads import follow

GOALS: Final = {180.0: 0.003, 600.0: 0.01}
"""Share of violated minutes that is allowed, by lead time in seconds."""
MARGINS: Final = (1.0, 1.03, 1.06, 1.1, 1.15, 1.2, 1.3)
MOST: Final = 16
KNOBS: Final = Knobs(slots=limits_of(LLAMA_8B_A100).max_slots)
CV: Final = 1.2


@cache
def table() -> Capacity:
    """What 1, 2, … replicas of kind B take within `CHAT`, with gaps as in W7."""
    return capacity(LLAMA_8B_A100, CHAT, KNOBS, MOST, 4.0, cv=CV)


@dataclass(frozen=True)
class Case:
    """One series at one lead time with one seed; `half` is where judging begins."""

    name: str
    series: RateSeries
    lead: float
    seed: int
    inside: Inside = Inside.LINEAR

    @property
    def half(self) -> float:
        """Seconds, on a minute."""
        return round(self.series.seconds / 120) * 60.0

    @property
    def goal(self) -> float:
        """Share of violated minutes."""
        return GOALS[self.lead]

    def question(self) -> Question:
        """The whole of it."""
        load = follow(self.series, self.seed, inside=self.inside, cv=CV)
        return tokens(load, lead=self.lead, most=MOST, seed=self.seed)

    def training(self, days: float) -> Question:
        """The last `days` of the first half."""
        whole = self.question()
        return tokens(
            whole.load.part(max(0.0, self.half - days * 86400), self.half), lead=self.lead, most=MOST, seed=self.seed
        )


def first_knobs(question: Question) -> Knobs:
    """As many replicas as the first five minutes need, and one more: a service that is there already."""
    rate = float(question.load.rates(300.0)[0])
    return KNOBS.model_copy(update={"replicas": min(MOST, table().needed(rate) + 1)})


def tuner(case: Case, question: Question) -> Played:
    """The real one."""
    return play("tuner", question, Tuner(question.settings), first_knobs(question), start=case.half)


def lead_oracle(case: Case, question: Question) -> Played:
    """O2 with the smallest margin that keeps it under the goal: the cheapest honest one."""
    best = None
    for margin in MARGINS:
        controller = LeadTimeOracle(needs(question.load, table(), margin), case.lead)
        played = play("O2 lead-time oracle", question, controller, first_knobs(question), start=case.half)
        if best is None or played.violated < best.violated:
            best = played
        if played.violated <= case.goal:
            return played
    assert best is not None
    return best


def clairvoyant(case: Case, question: Question) -> float:
    """O1's hours from the half on."""
    return clairvoyant_hours(needs(question.load, table(), 1.0)[int(case.half / 60) :])


def static(case: Case, question: Question) -> list[Played]:
    """B1: the replicas that the busiest minute, and the 99th percentile of minutes, of the first half need."""
    needed = needs(question.load, table(), 1.0)[: int(case.half / 60)]
    found = []
    for name, count in (("B1 static p99", np.quantile(needed, 0.99)), ("B1 static peak", needed.max())):
        knobs = KNOBS.model_copy(update={"replicas": int(count)})
        found.append(play(name, question, Fixed(knobs), knobs, start=case.half))
    return found


Make = Callable[[float], Controller]

FAMILIES: Final[dict[str, tuple[Make, tuple[float, ...]]]] = {
    "B3 HPA queue:compute": (
        lambda target: HorizontalAutoscaler(queue_to_compute(target), MOST),
        (1.0, 0.3, 0.1, 0.05, 0.03, 0.02, 0.015, 0.01),
    ),
    "B4 KEDA pending": (
        lambda target: HorizontalAutoscaler(pending(target), MOST),
        (10.0, 5.0, 1.0, 0.5, 0.3, 0.2, 0.1, 0.05),
    ),
    "B5 KPA concurrency": (
        lambda target: KnativeAutoscaler(target, MOST),
        (64.0, 56.0, 48.0, 42.0, 36.0, 30.0, 24.0),
    ),
}
"""By name: how to make one from its target, and targets, the documented default first where there is one."""


def retuned(case: Case, question: Question, training: Question) -> list[Played]:
    """B3 to B5, each with the best target of the first half."""
    return [
        play(f"{name} (target {target:g})", question, make(target), first_knobs(question), start=case.half)
        for name, (make, targets) in FAMILIES.items()
        for target in (_best(case, training, make, targets),)
    ]


def defaults(case: Case, question: Question) -> Iterable[Played]:
    """B3 to B7 as their documentation has them."""
    for name, target in (("B3 HPA queue:compute", 1.0), ("B4 KEDA pending", 10.0), ("B4 KEDA pending", 5.0)):
        make = FAMILIES[name][0]
        yield play(f"{name} {target:g}", question, make(target), first_knobs(question), start=case.half)
    yield play("B6 WVA saturation", question, SaturationAutoscaler(MOST), first_knobs(question), start=case.half)
    planner = Planner(table().rates[0], _profiled, MOST, continuous=True)
    yield play("B7 Dynamo planner", question, planner, first_knobs(question), start=case.half)


def _profiled(rate: float) -> float:
    """Mean seconds per output token at `rate` requests/s of one replica: the fixed point of its own step times.

    Every prompt holds the tokens up: step / (1 - rate * prompt time), with as many sequences as that makes.
    """
    sizes = np.array(LLAMA_8B_A100.sizes)
    steps = np.array([row[1] for row in LLAMA_8B_A100.steps])
    step = float(steps[0])
    for _ in range(50):
        step = float(np.interp(rate * 211.0 * step, sizes, steps)) / max(0.2, 1.0 - rate * 0.072)
    return step


def _best(case: Case, training: Question, make: Make, targets: tuple[float, ...]) -> float:
    best, fewest = targets[0], (2.0, 0.0)
    for target in targets:
        played = play("", training, make(target), first_knobs(training))
        key = (max(played.violated, case.goal), played.hours)
        if key < fewest:
            best, fewest = target, key
        if played.violated <= 0.5 * case.goal:
            break  # the next ones are dearer
    return best
