"""W1: Poisson arrivals at 10 to 95 % of an accelerator's capacity, the tuner beside exhaustive search."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.tritune.exhaustive import Setting, best, every, measure
from benchmarks.tritune.questions import dynamic
from llmservice.tuning.settings import Objective
from llmservice.tuning.simulator.kinds import DYNAMIC
from llmservice.tuning.simulator.load import load_of, poisson
from llmservice.tuning.simulator.run import Run, Tuner
from llmservice.tuning.simulator.workloads import steady

SHARES = (0.10, 0.25, 0.40, 0.55, 0.70, 0.80, 0.90, 0.95)
SETTLE = 5400.0
"""Seconds until the tuner is judged: room for a delay's cooldown of half an hour."""
JUDGED = 1800.0
TRIAL = 90.0
"""Seconds of load on which every setting is measured."""
EQUAL_BUSY = 0.05
"""Two settings with as many replicas are as good as each other when their busy time differs by less."""


@dataclass(frozen=True)
class Compared:
    """One load: the best setting there is, and where the tuner ended up."""

    share: float
    objective: Objective
    optimum: Setting
    reached: Setting
    run: Run
    tuner: Tuner

    @property
    def regret(self) -> float:
        """Accelerators more than the optimum, relative."""
        return self.reached.knobs.replicas / self.optimum.knobs.replicas - 1.0

    @property
    def same(self) -> bool:
        """The same optimum, or one that is as good: as many replicas, within the objective, as busy within 5 %."""
        if self.reached.knobs == self.optimum.knobs:
            return True
        return (
            self.regret == 0.0
            and self.reached.p99 <= self.objective.seconds
            and self.reached.busy <= self.optimum.busy * (1 + EQUAL_BUSY)
        )

    @property
    def attainment(self) -> float:
        """Share of requests within the objective, once settled."""
        return self.run.judge.attainment(SETTLE)


def compare(share: float, objectives: tuple[Objective, ...], seed: int) -> Compared | None:
    """None where no setting meets the objective."""
    rate = share * DYNAMIC.capacity
    question = dynamic(steady(rate, seed, SETTLE + JUDGED), objectives, most=4, seed=seed)
    random = np.random.default_rng([seed, 21])
    trial = load_of(poisson(rate, TRIAL, random), TRIAL, random)
    optimum = best(every(question, trial), objectives[0].seconds)
    if optimum is None:
        return None
    controller = Tuner(question.settings, keep=True)
    run = question.play(controller, question.first_knobs(2), record=True)
    last = run.windows[-1].knobs
    return Compared(share, objectives[0], optimum, measure(question, trial, last), run, controller)
