"""One controller on one question, judged from a moment on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from math import inf

from benchmarks.tritune.cell import Numbers
from benchmarks.tritune.oracles import LeadTimeOracle
from llmservice.api.knobs import Knobs
from llmservice.tuning.measured import Signals
from llmservice.tuning.simulator.plant import Plant, Tally
from llmservice.tuning.simulator.question import Question
from llmservice.tuning.simulator.run import Controller, Event, Fixed, Run, simulate
from llmservice.tuning.simulator.sensors import Faults

DAY = 86400.0


@dataclass
class Timed:
    """A controller and the processor time it takes."""

    controller: Controller
    seconds: float = 0.0
    looks: int = 0

    @property
    def period(self) -> float:
        """The controller's."""
        return self.controller.period

    def look(self, signals: Signals, now: float) -> Knobs:
        """The controller's."""
        began = time.process_time()
        knobs = self.controller.look(signals, now)
        self.seconds += time.process_time() - began
        self.looks += 1
        return knobs


@dataclass(frozen=True)
class Played:
    """What counts from `start` on. `violated` is a share of minutes, `met` of requests."""

    hours: float
    met: float
    violated: float
    replica_changes: int
    reversals: int
    reloads: int
    instance_changes: int
    dropped: int
    dropped_by_scaling: int
    days: float
    cpu_ms: float
    """Processor time of a look."""
    run: Run

    @property
    def numbers(self) -> Numbers:
        """What is kept of it."""
        return {
            "hours": self.hours,
            "met": 100 * self.met,
            "violated": 100 * self.violated,
            "changes_a_day": self.replica_changes / self.days,
            "reversals": self.reversals,
            "reloads_a_day": self.reloads / self.days,
            "in_place_a_day": self.instance_changes / self.days,
            "dropped": self.dropped,
            "dropped_by_scaling": self.dropped_by_scaling,
            "cpu_ms": self.cpu_ms,
        }


def play(
    question: Question,
    controller: Controller,
    knobs: Knobs,
    *,
    start: float = 0.0,
    record: bool = False,
    faults: Faults | None = None,
    events: Sequence[tuple[float, Event]] = (),
) -> Played:
    """Runs `controller` from `knobs` on over the whole load and judges what comes from `start` on."""
    before: list[Tally] = []
    timed = Timed(controller)
    run = simulate(
        question.kind,
        question.load,
        timed,
        question.objectives,
        knobs,
        times=question.times,
        seed=question.seed,
        events=(*events, (start, lambda plant: _note(plant, before))),
        record=record,
        sensing=not isinstance(controller, (Fixed, LeadTimeOracle)),
        faults=faults,
    )
    then, now = before[0], run.tally
    within = 4 * max(question.times.cold_start, 180.0)
    return Played(
        hours=(now.replica_seconds - then.replica_seconds) / 3600,
        met=run.judge.attainment(start),
        violated=run.judge.violated(start),
        replica_changes=now.replica_changes - then.replica_changes,
        reversals=reversals([point for point in now.replica_path if point[0] >= start], within),
        reloads=now.delay_reloads - then.delay_reloads,
        instance_changes=now.instance_changes - then.instance_changes,
        dropped=now.dropped - then.dropped,
        dropped_by_scaling=now.dropped_by_scaling - then.dropped_by_scaling,
        days=(run.seconds - start) / DAY,
        cpu_ms=1000 * timed.seconds / max(1, timed.looks),
        run=run,
    )


def reversals(path: Sequence[tuple[float, float]], within: float) -> int:
    """How often a knob came back to where it had been, having left it less than `within` seconds before.

    Whatever it was in between: 8, 6, 5, 8 is a way back as 8, 6, 8 is.
    """
    left: dict[float, float] = {}
    found, value = 0, path[0][1] if path else 0.0
    for moment, new in path:
        if new == value:
            continue
        left[value] = moment
        found += moment - left.get(new, -inf) < within
        value = new
    return found


def _note(plant: Plant, before: list[Tally]) -> None:
    before.append(deepcopy(plant.tally))
