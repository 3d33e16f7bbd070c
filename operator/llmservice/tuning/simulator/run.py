"""One run: a load, a plant, sensors, and a controller that looks at the signals and moves the knobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from llmservice.api.knobs import Knobs
from llmservice.tuning.decide import decide
from llmservice.tuning.decision import Decision
from llmservice.tuning.measured import Signals
from llmservice.tuning.settings import Objective, Settings
from llmservice.tuning.simulator.kinds import Kind
from llmservice.tuning.simulator.load import Load
from llmservice.tuning.simulator.outcome import MINUTE, Judge, latencies
from llmservice.tuning.simulator.plant import Plant, PlantTimes, Tally
from llmservice.tuning.simulator.replica import ARRIVAL
from llmservice.tuning.simulator.sensors import SCRAPE, Faults, Sensors
from llmservice.tuning.state import State

Floats = NDArray[np.float64]


class Controller(Protocol):
    """Anything that moves knobs: the tuner, or what people use instead."""

    @property
    def period(self) -> float:
        """Seconds between two looks, a multiple of the scrape interval."""
        ...

    def look(self, signals: Signals, now: float) -> Knobs:
        """The knobs to have from now on, after the window that `signals` are of."""
        ...


@dataclass
class Tuner:
    """The real tuner with its memory. Times it is told are seconds of the simulation."""

    settings: Settings
    period: float = 30.0
    state: State = field(default_factory=State)
    decisions: list[tuple[float, Signals, Decision]] = field(default_factory=list)
    keep: bool = False
    """Whether every decision is kept with its signals, for figures about them; else only those that act."""

    def look(self, signals: Signals, now: float) -> Knobs:
        """Decides as the operator would."""
        decision, self.state = decide(self.settings, signals, self.state, now)
        if self.keep or decision.actions:
            self.decisions.append((now, signals, decision))
        return decision.knobs


@dataclass(frozen=True)
class Fixed:
    """Knobs that nobody moves."""

    knobs: Knobs
    period: float = 600.0

    def look(self, signals: Signals, now: float) -> Knobs:
        """The same as ever."""
        _ = signals, now
        return self.knobs


@dataclass(frozen=True)
class Window:
    """What one window came to: `latency` holds every finished request's seconds by objective."""

    end: float
    knobs: Knobs
    ready: int
    arrivals: float
    waiting: int
    p99: tuple[float, ...]
    """Exact quantile of each objective over requests that finished in the window; NaN without any."""


@dataclass(frozen=True)
class Run:
    """What a run came to."""

    judge: Judge
    tally: Tally
    seconds: float
    windows: tuple[Window, ...]

    @property
    def accelerator_hours(self) -> float:
        """Hours for which a replica was held, from the moment its pod had a node."""
        return self.tally.replica_seconds / 3600

    @property
    def mean_replicas(self) -> float:
        """Replicas held on average."""
        return self.tally.replica_seconds / self.seconds


Event = Callable[[Plant], None]


def simulate(
    kind: Kind,
    load: Load,
    controller: Controller,
    objectives: Sequence[Objective],
    knobs: Knobs,
    *,
    times: PlantTimes | None = None,
    seed: int = 0,
    faults: Faults | None = None,
    events: Sequence[tuple[float, Event]] = (),
    record: bool = True,
    sensing: bool = True,
    jit: bool | None = None,
) -> Run:
    """Plays `load` on replicas of `kind` under `controller`, from `knobs` on. `events` happen to the plant when due.

    The same arguments give the same run. Without `sensing` nothing is scraped and the signals are empty, for
    controllers that do not look at them. `record` keeps a `Window` for each look, which long runs can do without.
    """
    plant = Plant(kind, knobs, load, times=times, seed=seed, jit=jit)
    sensors = Sensors(plant, faults or Faults(), blind=not sensing)
    scrape = SCRAPE if sensing else MINUTE
    judge = Judge(objectives, load.seconds, plant.jit)
    windows: list[Window] = []
    pending = sorted(events, key=lambda event: event[0])
    due = controller.period
    recent: list[Floats] = []
    while plant.clock < load.seconds:
        while pending and pending[0][0] <= plant.clock:
            pending.pop(0)[1](plant)
        finished = plant.advance(min(load.seconds, plant.clock + scrape))
        for rows in finished:
            judge.add(rows)
        if record:
            recent += finished
        sensors.scrape()
        if plant.clock + 1e-6 < due:
            continue
        due += controller.period
        signals = sensors.window()
        if record:
            windows.append(_window(plant, signals, recent, objectives))
            recent = []
        wanted = controller.look(signals, plant.clock)
        if wanted != plant.knobs:
            plant.set_knobs(wanted)
    _settle(plant, judge, objectives)
    return Run(judge, plant.tally, load.seconds, tuple(windows))


def _window(plant: Plant, signals: Signals, recent: list[Floats], objectives: Sequence[Objective]) -> Window:
    rows = np.concatenate(recent) if recent else np.zeros((0, 6))
    p99 = tuple(
        float(np.quantile(latencies(rows, one.metric), one.quantile)) if len(rows) else float("nan")
        for one in objectives
    )
    return Window(
        end=plant.clock,
        knobs=signals.knobs,
        ready=signals.replicas.ready,
        arrivals=signals.arrivals.known_or(float("nan")),
        waiting=sum(len(one.waiting) for one in plant.replicas),
        p99=p99,
    )


def _settle(plant: Plant, judge: Judge, objectives: Sequence[Objective]) -> None:
    """Counts what is left at the end: late already, or not to be judged."""
    shortest = min((one.seconds for one in objectives), default=np.inf)
    for one in plant.replicas:
        late = one.waiting[one.waiting[:, ARRIVAL] < plant.clock - shortest]
        judge.add_lost(late[:, ARRIVAL])
