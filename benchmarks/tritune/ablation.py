"""What each guard is for: the same loads with one guard taken out at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Final

from benchmarks.tritune.days import Case, first_knobs
from benchmarks.tritune.played import Played, play
from llmservice.tuning.simulator.run import Tuner
from llmservice.tuning.simulator.standins import days

ROOM: Final = "llmservice.tuning"

GUARDS: Final[Mapping[str, Mapping[str, object]]] = {
    "all guards": {},
    "no wait before fewer replicas": {"replicas.FEWER_SECONDS": 0.0, "replicas.FAR_FEWER_SECONDS": 0.0},
    "no cooldown of replicas": {"replicas.LEAST_REPLICA_COOLDOWN": 0.0, "guard.LEAST_REPLICA_COOLDOWN": 0.0},
    "no reversal lock": {"replicas.LOCK_COOLDOWNS": 0, "guard.LOCK_COOLDOWNS": 0},
    "no consolidation check": {"replicas.CONSOLIDATED": 1e9, "replicas.CONSOLIDATED_FAR": 1e9},
    "no margin of forecasts": {"forecast.FIRST_MARGIN": 1.0, "forecast.MOST_MARGIN": 1.0},
    "no trend": {"forecast.STEEPEST": 0.0},
    "no panic": {"propose.PANIC": 1e9, "propose.PANIC_QUEUE": 1e9},
    "no headroom": {"propose.OBJECTIVE_SHARE": 1.0, "replicas.SPARE": 0.0},
    "no veto when saturated": {"decide.SATURATED_KV": 1e9, "decide.SATURATED_WAITING": 1e9},
    "unlimited steps": {"replicas.STEP_UP": 1e9, "replicas.STEP_DOWN": 1.0},
}
"""By name: constants of the tuner, and what takes them out."""


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


@dataclass(frozen=True)
class Ablated:
    """One guard less."""

    name: str
    played: Played


def ablate(item: tuple[str, float, int]) -> Ablated:
    """(guard, days, seed): a stand-in's days at a lead time of 180 s, judged from a quarter of a day on."""
    name, length, seed = item
    series = days(seed + 1).part(0, int(144 * length))
    question = Case("stand-in", series, 180.0, seed).question()
    with without(GUARDS[name]):
        played = play(name, question, Tuner(question.settings), first_knobs(question), start=21600.0)
    return Ablated(name, played)
