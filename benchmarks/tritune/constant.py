"""W1: Poisson arrivals at 10 to 95 % of an accelerator's capacity, the tuner beside exhaustive search."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.tritune.best_setting import Setting, best, every, measure
from benchmarks.tritune.cell import Cell, Numbers, Scope
from benchmarks.tritune.predictions import counters_alone, foretold, step_time_error
from benchmarks.tritune.questions import NORMAL, TIGHT, dynamic
from llmservice.tuning.settings import Metric, Objective
from llmservice.tuning.simulator.kinds import DYNAMIC
from llmservice.tuning.simulator.load import Load, RateSeries, load_of, modulated, poisson, renewal
from llmservice.tuning.simulator.run import Run, Tuner, simulate
from llmservice.tuning.simulator.sensors import SCRAPE
from llmservice.tuning.simulator.workloads import steady

SHARES: Final = (0.10, 0.25, 0.40, 0.55, 0.70, 0.80, 0.90, 0.95)
OBJECTIVES: Final = {"tight": TIGHT, "normal": NORMAL}
SETTLE: Final = 4200.0
"""Seconds until the tuner is judged: room for a delay's cooldown of half an hour, twice."""
JUDGED: Final = 1500.0
TRIAL: Final = 90.0
"""Seconds of load on which every setting is measured."""
EQUAL_BUSY: Final = 0.05
"""Two settings with as many replicas are as good as each other when their busy time differs by less."""
COUNTED: Final = 1800.0
"""Seconds of load from which step times are learnt by counters alone."""
SWING: Final = 1200.0
"""Seconds of a swing between a fifth and four fifths of an accelerator: one load tells one batch size alone."""
COUPLED: Final = "coupled"
"""The case in which two instances and a delay together are best, and either alone is worse than neither."""
COUNTERS: Final = ("0.25", "0.55", "0.8", "swing", "bursts")
"""Loads on which step times are learnt from counters by request alone."""


@dataclass(frozen=True)
class Compared:
    """One load: the best setting there is, and where the tuner ended up."""

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


def cells(scope: Scope) -> Iterator[Cell]:
    """Every load with either objective, the coupled case, and step times from counters by request."""
    shares = (0.25, 0.55, 0.8) if scope.quick else SHARES
    for seed in range(scope.seeds):
        for share in shares:
            yield from (Cell(seed, "W1", f"{share:g} {name}", "tuner") for name in OBJECTIVES)
        yield Cell(seed, "W1", COUPLED, "tuner")
        yield from (Cell(seed, "W1 counters", load, "tuner") for load in COUNTERS)


def play(scope: Scope, cell: Cell) -> Numbers:
    """One load; no numbers where no setting meets the objective."""
    _ = scope
    if cell.workload == "W1 counters":
        return _counters(cell.variant, cell.seed)
    if cell.variant == COUPLED:
        objective = Objective(Metric.LATENCY, 0.99, 0.085)
        found = compare(700.0, (objective,), cell.seed)
    else:
        share, name = cell.variant.split()
        found = compare(float(share) * DYNAMIC.capacity, OBJECTIVES[name], cell.seed)
    if found is None:
        return {}
    forecasts = foretold(found.run, found.tuner)
    mean, worst = step_time_error(found.tuner, DYNAMIC)
    return {
        "regret": 100 * found.regret,
        "same": float(found.same),
        "equal_knobs": float(found.reached.knobs == found.optimum.knobs),
        "met": 100 * found.run.judge.attainment(SETTLE),
        "p99_over_objective": found.reached.p99 / found.objective.seconds,
        "busy_over_optimum": found.reached.busy / found.optimum.busy,
        "replicas": found.reached.knobs.replicas,
        "instances": found.reached.knobs.engine_instances,
        "delay_ms": 1000 * found.reached.knobs.max_queue_delay.total_seconds(),
        "optimum_instances": found.optimum.knobs.engine_instances,
        "optimum_delay_ms": 1000 * found.optimum.knobs.max_queue_delay.total_seconds(),
        "errors": [round(100 * error, 2) for error in forecasts.errors],
        "held": [float(held) for held in forecasts.held],
        "step_time_error": 100 * mean,
        "step_time_error_worst": 100 * worst,
    }


def compare(rate: float, objectives: tuple[Objective, ...], seed: int) -> Compared | None:
    """None where no setting meets the objective."""
    question = dynamic(steady(rate, seed, SETTLE + JUDGED), objectives, most=4, seed=seed)
    random = np.random.default_rng([seed, 21])
    trial = load_of(poisson(rate, TRIAL, random), TRIAL, random)
    optimum = best(every(question, trial), objectives[0].seconds)
    if optimum is None:
        return None
    controller = Tuner(question.settings, keep=True)
    run = question.play(controller, question.first_knobs(2), record=True)
    return Compared(objectives[0], optimum, measure(question, trial, run.windows[-1].knobs), run, controller)


def _counters(load: str, seed: int) -> Numbers:
    """Step times from Triton's counters by request, and whether the tuner says that it does not believe them."""
    random = np.random.default_rng([seed, 26])
    seconds = COUNTED
    if load == "bursts":
        times = modulated(0.5 * DYNAMIC.capacity, 4.0, 5.0, 0.2, seconds, random)
    elif load == "swing":
        shares = 0.5 - 0.3 * np.cos(2 * np.pi * np.arange(0.0, seconds, SCRAPE) / SWING)
        times = renewal(RateSeries(shares * DYNAMIC.capacity, SCRAPE), random)
    else:
        times = poisson(float(load) * DYNAMIC.capacity, seconds, random)
    requests: Load = load_of(times, seconds, random)
    question = dynamic(requests, NORMAL, most=4, seed=seed)
    controller = Tuner(question.settings, keep=True)
    knobs = question.first_knobs(2)
    simulate(
        question.kind,
        requests,
        controller,
        question.objectives,
        knobs,
        seed=seed,
        faults=counters_alone(),
        record=False,
    )
    mean, worst = step_time_error(controller, DYNAMIC)
    flagged = [not decision.trusted for _, _, decision in controller.decisions[len(controller.decisions) // 3 :]]
    return {"step_time_error": 100 * mean, "step_time_error_worst": 100 * worst, "flagged": float(np.mean(flagged))}
