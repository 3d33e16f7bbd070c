"""What each guard is for: the same loads with one guard taken out at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Final

import numpy as np

from benchmarks.tritune.cell import Cell, Numbers, Scope
from benchmarks.tritune.played import play as run
from benchmarks.tritune.questions import TENTH, TENTH_NORMAL, dynamic, tokens
from llmservice.tuning.simulator.faults import MissingScrapes
from llmservice.tuning.simulator.load import RateSeries, load_of, renewal
from llmservice.tuning.simulator.run import Tuner
from llmservice.tuning.simulator.standins import days
from llmservice.tuning.simulator.workloads import follow

ROOM: Final = "llmservice.tuning"

GUARDS: Final[Mapping[str, Mapping[str, object]]] = {
    "": {},
    "wait before fewer replicas": {"decide.agreed_seconds": lambda *_: 0.0, "replicas.FAR_FEWER_SECONDS": 0.0},
    "hold while the load rises": {"replicas.is_outgrown": lambda *_, **__: False},
    "cooldown of replicas": {"replicas.cooldown": lambda *_: 0.0, "decide.free_at": lambda *_: 0.0},
    "reversal lock": {"guard.LOCK_COOLDOWNS": 0},
    "consolidation check": {"replicas.CONSOLIDATED": 1e9, "replicas.CONSOLIDATED_FAR": 1e9},
    "margin of forecasts": {"forecast.FIRST_MARGIN": 1.0, "forecast.MOST_MARGIN": 1.0},
    "trend": {"forecast.STEEPEST": 0.0},
    "panic": {"propose.PANIC": 1e9, "propose.PANIC_QUEUE": 1e9},
    "headroom": {"tail.LEAST_SHARE": 1.0, "replicas.SPARE": 0.0, "propose.SPARE": 0.0},
    "veto when saturated": {"decide.SATURATED_KV": 1e9, "decide.SATURATED_WAITING": 1e9},
    "bursts felt": {"bursts_felt.KEPT_FOR": 0.0},
    "giving up what does not help against bursts": {"bursts_felt.HELPED": 1e9},
    "drift where instances share": {"step_times.SHARED_AGREE": 10**9},
    "instances in a hurry": {"propose.LEAST_RUSHED_GAIN": 1e9},
    "least gain of a setting": {"optimise.LEAST_GAIN": 0.0, "optimise.LEAST_TAIL_GAIN": 0.0},
    "cooldown and budget of reloads": {"guard.DELAY_COOLDOWN": 0.0, "guard.DELAY_CHANGES_A_DAY": 10**6},
    "undoing what does not do as foretold": {"trial.UNEXPECTED": 1e9},
    "limit of steps": {"replicas.STEP_UP": 1e9, "replicas.PANIC_STEP": 1e9, "replicas.STEP_DOWN": 1.0},
}
"""By name: what of the tuner takes a guard out, and by what it is replaced."""


@contextmanager
def without(changes: Mapping[str, object]) -> Iterator[None]:
    """The tuner with these constants instead of its own."""
    before = {}
    for path, value in changes.items():
        module, name = path.split(".")
        found = import_module(f"{ROOM}.{module}")
        before[path] = getattr(found, name)
        setattr(found, name, value)
    try:
        yield
    finally:
        for path, value in before.items():
            module, name = path.split(".")
            setattr(import_module(f"{ROOM}.{module}"), name, value)


def cells(scope: Scope) -> Iterator[Cell]:
    """Every guard taken out once."""
    for seed in range(scope.few(3)):
        for name in GUARDS:
            yield from (Cell(seed, "ablation", load, f"without {name}" if name else "tuner") for load in LOADS)


def play(scope: Scope, cell: Cell) -> Numbers:
    """One guard less."""
    with without(GUARDS[cell.policy.removeprefix("without ") if cell.policy != "tuner" else ""]):
        return LOADS[cell.variant](scope, cell.seed)


def _days(scope: Scope, seed: int) -> Numbers:
    """A stand-in's days at a lead time of 180 s, judged from a quarter of a day on."""
    series = days(seed + 1).part(0, 72 if scope.quick else 216)
    question = tokens(follow(series, seed), lead=180.0, seed=seed)
    first = question.first_knobs(4)
    return run(question, Tuner(question.settings), first, start=21600.0).numbers


def _blip(scope: Scope, seed: int) -> Numbers:
    """A steady load with missing scrapes, a wave around a replica's capacity, and a fall to nothing for two windows."""
    _ = scope
    random = np.random.default_rng([seed, 43])
    moments = np.arange(0.0, 14400.0, 30.0)
    rates = 20.0 * (1.0 + 0.25 * np.sin(2 * np.pi * moments / 1200.0))
    rates[(moments >= 9000) & (moments < 9060)] = 0.0
    load = load_of(renewal(RateSeries(rates, 30.0), random), 14400.0, random)
    question = tokens(load, lead=180.0, seed=seed)
    faults = MissingScrapes(3600.0, 10800.0)
    return run(question, Tuner(question.settings), question.first_knobs(4), start=1800.0, faults=faults).numbers


def _tides(scope: Scope, seed: int) -> Numbers:
    """Kind A at a tenth of its pace: hours of waves about a replica's capacity, one of them four times as high."""
    _ = scope
    random = np.random.default_rng([seed, 44])
    moments = np.arange(0.0, 16200.0, 30.0)
    rates = 0.8 * TENTH.capacity * (1.0 + 0.4 * np.sin(2 * np.pi * moments / 2700.0))
    rates[(moments >= 10800) & (moments < 11700)] *= 4.0
    load = load_of(renewal(RateSeries(rates, 30.0), random), 16200.0, random)
    question = dynamic(load, TENTH_NORMAL, kind=TENTH, lead=180.0, seed=seed)
    return run(question, Tuner(question.settings), question.first_knobs(2), start=300.0).numbers


LOADS: Final = {"days": _days, "waves": _blip, "tides": _tides}
