"""W8: what the tuner does when measuring or acting fails. Nothing foolish, and soon back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from benchmarks.tritune.cell import Cell, Numbers, Scope
from benchmarks.tritune.questions import CHAT, TENTH, TENTH_NORMAL, dynamic, tokens
from llmservice.api.knobs import Knobs
from llmservice.tuning.decision import Decision
from llmservice.tuning.measured import Signals
from llmservice.tuning.simulator.faults import (
    Between,
    ClockSkew,
    CounterReset,
    MissingScrapes,
    OtherWriter,
    Outage,
    StalePod,
    drift,
    no_node,
    reloads_fail,
    written_by_other,
)
from llmservice.tuning.simulator.load import Load, RateSeries, load_of, renewal
from llmservice.tuning.simulator.question import Question
from llmservice.tuning.simulator.run import Controller, Event, Run, Tuner, simulate
from llmservice.tuning.simulator.sensors import Faults

BEGIN: Final = 5400.0
END: Final = 7200.0
SECONDS: Final = 10800.0
WINDOW: Final = 30.0
STEADY: Final = 4


@dataclass(frozen=True)
class Fault:
    """One fault from `BEGIN` on. `measuring` ones must cause no scale-down and no reload while they last."""

    name: str
    faults: Callable[[], Faults]
    events: Sequence[tuple[float, Event]] = ()
    end: float = END
    measuring: bool = True
    factors: tuple[float, float, float] = (1.0, 1.0, 1.0)
    """Load before, during and after, relative."""


FAULTS: Final = (
    Fault("counter reset", lambda: CounterReset(BEGIN, SECONDS), end=BEGIN + 300),
    Fault("20 % of scrapes missing", lambda: MissingScrapes(BEGIN, END)),
    Fault("Prometheus away for 5 min", lambda: Outage(BEGIN, BEGIN + 300), end=BEGIN + 300),
    Fault("Prometheus away for 30 min", lambda: Outage(BEGIN, END)),
    Fault("stale pod series", lambda: StalePod(BEGIN, BEGIN + 600), end=BEGIN + 600),
    Fault("clock skew", lambda: ClockSkew(BEGIN, END)),
    Fault(
        "reload fails",
        Faults,
        ((BEGIN, reloads_fail(failing=True)), (END, reloads_fail(failing=False))),
        measuring=False,
    ),
    Fault(
        "pod pending for 20 min",
        Faults,
        ((BEGIN, no_node(1200.0)), (END, no_node(0.0))),
        measuring=False,
        factors=(1, 1.8, 1.8),
    ),
    Fault("steps 30 % slower", Faults, ((BEGIN, drift(1.3)),), measuring=False),
    Fault("no traffic for an hour", Faults, (), measuring=False, factors=(1.0, 0.0, 1.0)),
    Fault(
        "another writer of replicas",
        lambda: OtherWriter(BEGIN, END),
        ((BEGIN + 60, written_by_other(5)), (BEGIN + 600, written_by_other(3))),
    ),
)


def cells(scope: Scope) -> Iterator[Cell]:
    """Every fault on both kinds."""
    for seed in range(scope.seeds):
        for fault in FAULTS:
            yield from (Cell(seed, "W8", f"{fault.name} {kind}", "tuner") for kind in ("A", "B"))


def play(scope: Scope, cell: Cell) -> Numbers:
    """One fault."""
    _ = scope
    name, kind = cell.variant.rsplit(" ", 1)
    return faulted(next(one for one in FAULTS if one.name == name), cell.seed, continuous=kind == "B")


def faulted(fault: Fault, seed: int, *, continuous: bool = False) -> Numbers:
    """Plays it on three replicas' worth of load: what happened while it lasted, and after.

    `unavoidable` windows are what recovery takes a controller that asks for all replicas in the first window after an
    idle hour: requests are dealt once, and what piled up on the last replica is served by it alone.
    """
    random = np.random.default_rng([seed, 25])
    base = 15.0 if continuous else 1.9 * TENTH.capacity
    before, during, after = fault.factors
    moments = np.arange(0.0, SECONDS, WINDOW)
    factors = np.where(moments < BEGIN, before, np.where(moments < fault.end, during, after))
    load: Load = load_of(renewal(RateSeries(base * factors, WINDOW), random), SECONDS, random)
    question: Question = (
        tokens(load, CHAT, seed=seed) if continuous else dynamic(load, TENTH_NORMAL, kind=TENTH, seed=seed)
    )
    controller, faults = Tuner(question.settings), fault.faults()
    run = _played(question, controller, faults, fault.events)
    begin, end = (faults.start, min(fault.end, faults.end)) if isinstance(faults, Between) else (BEGIN, fault.end)
    acted = [(at, decision) for at, _, decision in controller.decisions if begin < at <= end + WINDOW]
    actions = [action for _, decision in acted for action in decision.actions]
    unavoidable = 0
    if fault.factors[1] == 0.0:
        most = _played(question, _All(controller.decisions, end, question.max_replicas), fault.faults(), fault.events)
        unavoidable = windows_to_recover(most, question, end)
    return {
        "measuring": float(fault.measuring),
        "scale_downs": sum(action.knob.value == "replicas" and action.new < action.old for action in actions),
        "reloads": sum(action.knob.value == "maxQueueDelay" for action in actions),
        "windows_to_recover": windows_to_recover(run, question, end) - unavoidable,
        "unavoidable": unavoidable,
        "dropped": run.tally.dropped_by_scaling,
        "met": 100 * run.judge.attainment(1800.0),
    }


@dataclass
class _All:
    """Does what the tuner did until `end`, and asks for all replicas in the first window after it."""

    decisions: Sequence[tuple[float, Signals, Decision]]
    end: float
    most: int
    period: float = WINDOW

    def look(self, signals: Signals, now: float) -> Knobs:
        """The knobs of then."""
        if now > self.end:
            return signals.knobs.model_copy(update={"replicas": self.most})
        return next((made.knobs for at, _, made in reversed(self.decisions) if at <= now), signals.knobs)


def _played(question: Question, controller: Controller, faults: Faults, events: Sequence[tuple[float, Event]]) -> Run:
    return simulate(
        question.kind,
        question.load,
        controller,
        question.objectives,
        question.first_knobs(4),
        times=question.times,
        seed=question.seed,
        faults=faults,
        events=events,
    )


def windows_to_recover(run: Run, question: Question, end: float) -> int:
    """Windows from `end` until p99 is within the objective for `STEADY` windows in a row; 0: from the first one on.

    Beyond a cold start, where replicas were asked for after `end`. A window without requests is none of the good ones.
    """
    looks = [
        (window.end, all(p99 <= one.seconds for p99, one in zip(window.p99, question.objectives, strict=True)))
        for window in run.windows
        if window.end > end
    ]
    again = next(
        (at for place, (at, _) in enumerate(looks) if all(well for _, well in looks[place : place + STEADY])), SECONDS
    )
    path = run.tally.replica_path
    asked = any(after > before and end < at <= again for (_, before), (at, after) in pairwise(path))
    lead = WINDOW + question.times.cold_start if asked else 0.0
    return int(np.ceil(max(0.0, again - WINDOW - end - lead) / WINDOW))
