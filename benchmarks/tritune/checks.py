"""Is the simulator right? Against theory, against a second program, against NVIDIA's model of an A100."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.tritune import simpy_batcher
from benchmarks.tritune.cell import Cell, Numbers, Scope
from llmservice.api.knobs import Knobs
from llmservice.tuning.simulator.kinds import LLAMA_8B_A100, BatchKind
from llmservice.tuning.simulator.load import Tokens, load_of, poisson
from llmservice.tuning.simulator.plant import Plant
from llmservice.tuning.simulator.replica import ARRIVAL, FINISH, FIRST, OUTPUT

Floats = NDArray[np.float64]

POINTS: Final = tuple(
    (overhead, per_request, load)
    for overhead, per_request in ((0.010, 0.001), (0.005, 0.002), (0.020, 0.0005))
    for load in (0.3, 0.45, 0.6, 0.75, 0.9)
)
"""(a, c, rho): 15 points of Inoue's bound."""
REFERENCE: Final = Path(__file__).with_name("aiconfigurator.csv")
SAFE_SHARE: Final = 0.7
"""Of the highest rate of NVIDIA's model, up to which both must agree."""
UNBOUNDED: Final = 4096
DELAYS: Final = (0.0, 0.010, 0.020)


def cells(scope: Scope) -> Iterator[Cell]:
    """The three checks, once."""
    _ = scope
    yield from (Cell(0, "simulator", check, "") for check in ("inoue", "simpy", "a100"))


def play(scope: Scope, cell: Cell) -> Numbers:
    """One check."""
    if cell.variant == "inoue":
        ratios = [inoue(*point, 400.0 if scope.quick else 3000.0) for point in POINTS]
        return {"lowest": min(ratios), "highest": max(ratios)}
    if cell.variant == "simpy":
        settings = [(rate, delay, count) for rate in (60.0, 300.0, 700.0) for delay in DELAYS[::2] for count in (1, 2)]
        found = [twice(*setting, 100.0 if scope.quick else 600.0) for setting in settings]
        return {
            "mean": 100 * max(abs(one.mean) for one in found),
            "p99": 100 * max(abs(one.p99) for one in found),
            "batch": 100 * max(abs(one.batch) for one in found),
        }
    points = [steady(rate, theirs) for rate, theirs in reference(REFERENCE)]
    most = SAFE_SHARE * max(one.rate for one in points)
    return {
        "difference": 100 * max(abs(one.difference) for one in points if one.rate <= most),
        "beyond_lowest": 100 * min(one.difference for one in points if one.rate > most),
    }


def rows(
    kind: BatchKind, rate: float, seconds: float, *, delay: float = 0.0, instances: int = 1, seed: int = 0
) -> Floats:
    """Finished requests of one replica under Poisson arrivals, without a beginning of a tenth."""
    random = np.random.default_rng([seed, 31])
    load = load_of(poisson(rate, seconds, random), seconds, random)
    knobs = Knobs(max_queue_delay=timedelta(seconds=delay), engine_instances=instances)
    finished = np.concatenate(Plant(kind, knobs, load, seed=seed).advance(seconds))
    return finished[finished[:, ARRIVAL] > 0.1 * seconds]


def inoue(overhead: float, per_request: float, load: float, seconds: float, seed: int = 0) -> float:
    """Inoue's bound phi1 of the mean time in the system, divided by the simulated mean.

    phi1 = 1.5 a / (1 - rho) + (c / 2) (rho + 2) / (1 - rho^2) for service times a + c b, no limit on b, no delay
    (Inoue, "Queueing analysis of GPU-based inference servers with dynamic batching", Performance Evaluation 2021).
    """
    kind = BatchKind(overhead, per_request, UNBOUNDED, jitter=0.0)
    finished = rows(kind, load / per_request, seconds, seed=seed)
    mean = float((finished[:, FINISH] - finished[:, ARRIVAL]).mean())
    bound = 1.5 * overhead / (1 - load) + 0.5 * per_request * (load + 2) / (1 - load**2)
    return bound / mean


@dataclass(frozen=True)
class Twice:
    """One setting in both programs: relative differences, the second's result the unit."""

    rate: float
    delay: float
    instances: int
    mean: float
    p99: float
    batch: float

    @property
    def worst(self) -> float:
        """The largest of the three."""
        return max(abs(self.mean), abs(self.p99), abs(self.batch))


def twice(rate: float, delay: float, instances: int, seconds: float, seed: int = 0) -> Twice:
    """The same setting in the kernel and in SimPy, with arrivals of their own."""
    kind = BatchKind(jitter=0.0)
    finished = rows(kind, rate, seconds, delay=delay, instances=instances, seed=seed)
    ours = finished[:, FINISH] - finished[:, ARRIVAL]
    started = len(np.unique(finished[:, 1]))
    theirs, sizes = simpy_batcher.simulate(
        rate,
        seconds,
        overhead=kind.overhead,
        per_request=kind.per_request,
        largest=kind.max_batch,
        delay=delay,
        instances=instances,
        seed=seed + 1,
    )
    return Twice(
        rate,
        delay,
        instances,
        float(ours.mean() / np.mean(theirs) - 1),
        float(np.quantile(ours, 0.99) / np.quantile(theirs, 0.99) - 1),
        float(len(finished) / started / np.mean(sizes) - 1),
    )


@dataclass(frozen=True)
class Steady:
    """Kind B in steady state at one rate beside NVIDIA's model."""

    rate: float
    ours: float
    theirs: float
    """Mean seconds between tokens."""

    @property
    def difference(self) -> float:
        """Relative; positive is slower than NVIDIA's model, the safe side."""
        return self.ours / self.theirs - 1


def steady(rate: float, theirs: float, seconds: float = 3000.0) -> Steady:
    """Prompts of 1,155 tokens, answers of 211, all alike, as `aiconfigurator` takes them."""
    random = np.random.default_rng(32)
    load = load_of(poisson(rate, seconds, random), seconds, random, Tokens(1155, 211, 0.0))
    finished = np.concatenate(Plant(LLAMA_8B_A100, Knobs(slots=194), load).advance(seconds))
    finished = finished[finished[:, ARRIVAL] > 0.1 * seconds]
    gaps = (finished[:, FINISH] - finished[:, FIRST]) / (finished[:, OUTPUT] - 1)
    return Steady(rate, float(gaps.mean()), theirs)


def reference(path: Path) -> list[tuple[float, float]]:
    """(requests/s, seconds between tokens) of NVIDIA's model, from the project's small table."""
    with path.open() as lines:
        content = csv.DictReader(line for line in lines if not line.startswith("#"))
        return [(float(row["requests_per_second"]), float(row["itl_ms"]) / 1000) for row in content]
