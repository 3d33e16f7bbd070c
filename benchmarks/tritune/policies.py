"""Everybody who may compete, by the name in the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from benchmarks.tritune import contest as on
from benchmarks.tritune.baselines import (
    HorizontalAutoscaler,
    KnativeAutoscaler,
    SaturationAutoscaler,
    pending,
    queue_to_compute,
)
from benchmarks.tritune.cell import Numbers
from benchmarks.tritune.contest import Contest
from benchmarks.tritune.played import Played
from llmservice.api.knobs import Knobs
from llmservice.tuning.simulator.run import Controller

Make = Callable[[float, int], Controller]

FAMILIES: Final[dict[str, tuple[Make, tuple[float, ...]]]] = {
    "B3 HPA queue:compute": (
        lambda target, most: HorizontalAutoscaler(queue_to_compute(target), most),
        (1.0, 0.6, 0.4, 0.3, 0.2, 0.1, 0.05, 0.03, 0.02, 0.015, 0.01),
    ),
    "B4 KEDA pending": (
        lambda target, most: HorizontalAutoscaler(pending(target), most),
        (10.0, 5.0, 2.0, 1.0, 0.5, 0.3, 0.2, 0.1, 0.05),
    ),
    "B5 KPA concurrency": (
        lambda target, most: KnativeAutoscaler(target, most),
        (100.0, 80.0, 64.0, 56.0, 48.0, 42.0, 36.0, 30.0, 24.0, 18.0, 12.0),
    ),
}
"""By name: how to make one from its target, and targets from the cheapest to the dearest, the documented one first."""

RETUNED: Final = tuple(f"{family}, retuned" for family in FAMILIES)
"""Each with the target that training calls for."""

ENOUGH: Final = "B1 static enough"
"""The fewest replicas that, never changed, hold the goal on what is judged itself: a fixed number by hindsight."""

STATIC: Final = ("B1 static p99", "B1 static peak", ENOUGH)


def _scaler(family: str, target: float, contest: Contest) -> Played:
    return contest.judged(FAMILIES[family][0](target, contest.question.max_replicas))


def _retuned(family: str, contest: Contest) -> Numbers:
    make, targets = FAMILIES[family]
    most = contest.question.max_replicas

    def controller(target: float) -> tuple[Controller, Knobs]:
        return make(target, most), contest.first(contest.training)

    found = contest.learn(f"{family} target", lambda: {"target": contest.cheapest(controller, targets)})["target"]
    assert isinstance(found, float)
    return {**_scaler(family, found, contest).numbers, "target": found}


def _enough(contest: Contest) -> Played:
    low, high = 1, contest.question.max_replicas
    runs: dict[int, Played] = {}

    def held(count: int) -> bool:
        runs[count] = contest.fixed(contest.usual.model_copy(update={"replicas": count}))
        return runs[count].violated <= contest.goal

    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if held(middle) else (middle + 1, high)
    if low not in runs:
        held(low)
    return runs[low]


def _saturation(contest: Contest) -> Played:
    return contest.judged(SaturationAutoscaler(contest.question.max_replicas))


POLICIES: Final[dict[str, Callable[[Contest], Played | Numbers]]] = {
    "tuner": on.tuner,
    "O1 clairvoyant": on.clairvoyant,
    "O2 lead-time oracle": on.lead_oracle,
    "B0 Triton default": on.default,
    "B1 static p99": partial(on.static, quantile=0.99),
    "B1 static peak": partial(on.static, quantile=1.0),
    ENOUGH: _enough,
    "B2 best static": on.best_static,
    "B3 HPA queue:compute 1": partial(_scaler, "B3 HPA queue:compute", 1.0),
    "B4 KEDA pending 10": partial(_scaler, "B4 KEDA pending", 10.0),
    "B4 KEDA pending 5": partial(_scaler, "B4 KEDA pending", 5.0),
    "B5 KPA concurrency 100": partial(_scaler, "B5 KPA concurrency", 100.0),
    **{name: partial(_retuned, family) for name, family in zip(RETUNED, FAMILIES, strict=True)},
    "B6 WVA saturation": _saturation,
    "B7 Dynamo planner": on.planner,
    "B8 AIMD on the delay": on.additive,
    "B9 hill climb": on.hill_climb,
}

ONLY_CONTINUOUS: Final = ("B6 WVA saturation",)
"""What looks at a cache of keys and values."""
ONLY_BATCHES: Final = ("B8 AIMD on the delay",)
"""What moves a delay."""


def policies(*, continuous: bool) -> Sequence[str]:
    """The names that make sense for a kind of engine."""
    left_out = ONLY_BATCHES if continuous else ONLY_CONTINUOUS
    return [name for name in POLICIES if name not in left_out]


def compete(policy: str, contest: Contest) -> Numbers:
    """One contestant's numbers. Raises KeyError for a name that is none."""
    found = POLICIES[policy](contest)
    return found if isinstance(found, dict) else found.numbers
