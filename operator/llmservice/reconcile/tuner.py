"""Brings windows to the tuner and its knobs to the loop: one memory per service, kept in a ConfigMap of its own.

The loop decides nothing of its own about knobs and the tuner writes nothing: a pass asks for the knobs in force, for
what people shall see, and for the memory worth keeping.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from llmservice.api.fleet import FleetDefaults
from llmservice.api.knobs import Knobs
from llmservice.api.operations import TuningMode
from llmservice.api.service import LLMService
from llmservice.kube import resources
from llmservice.kube.resources import Manifest
from llmservice.reconcile.intent import Intent
from llmservice.reconcile.tuning_frame import settings_of
from llmservice.reconcile.tuning_seen import Seen, seen
from llmservice.reconcile.work_queue import Key
from llmservice.reconcile.world import World
from llmservice.signals.canary import Canary
from llmservice.signals.watch import Looked, in_words
from llmservice.tuning.budget import Claim, spent, turn_of
from llmservice.tuning.decide import decide, distrusted
from llmservice.tuning.decision import Decision
from llmservice.tuning.interruption import on_trial
from llmservice.tuning.knob_moves import knobs_of
from llmservice.tuning.measured import Signals, Turn
from llmservice.tuning.settings import Settings
from llmservice.tuning.state import State
from llmservice.tuning.trial import Trial
from llmservice.workload.names import memory_name
from llmservice.workload.tuning_memory import MEMORY_KEY, build_tuning_memory

KEPT_EVERY: Final = 600.0
"""Seconds after which a memory that only learnt is written again. One that acted is at once, an idle one never."""

Tune = Callable[[Settings, Signals, State, float], tuple[Decision, State]]
"""The tuner itself, see `llmservice.tuning.decide`."""

log = logging.getLogger(__name__)


@dataclass
class _Tuned:
    """One service: what it is tuned for, what is remembered, and the last decision."""

    uid: str
    generation: int
    settings: Settings
    service: LLMService
    state: State
    kept: str = ""
    """The memory as it is to stand in the ConfigMap."""
    kept_at: float = 0.0
    recalled: Knobs | None = None
    """The knobs that the process before this one decided on last, for this very spec."""
    decision: Decision | None = None
    looked: Looked | None = None
    seen: Seen | None = None
    failed: str = ""
    """Why the last window could not be decided on; empty: it was."""
    changed: bool = False
    """Whether the spec has changed since the last window."""


@dataclass
class Tuner:
    """What is tuned, by service."""

    fleet: FleetDefaults
    tune: Tune = decide
    _tuned: dict[Key, _Tuned] = field(default_factory=dict)
    _claims: dict[Key, Claim] = field(default_factory=dict)
    """Services that wait for their turn."""

    def follow(self, world: World, intent: Intent) -> bool:
        """Takes the frame of this pass. A service seen for the first time remembers what its ConfigMap holds.

        Whether what it remembers may be news to the intent: the memory is written before anything is moved, the status
        after, so where they differ a process ended in between, and this one goes on with what that had decided.
        """
        if intent.service.spec.tuning.mode is TuningMode.OFF:
            self.forget(world.key)
            return False
        settings = settings_of(intent, self.fleet)
        known = self._tuned.get(world.key)
        if known is None or known.uid != world.uid:
            kept = _stored(world)
            state = State.read(_loads(kept))
            known = _Tuned(world.uid, world.generation, settings, intent.service, state, kept)
            self._tuned[world.key] = known
            if state.asked is not None and state.generation == world.generation:
                known.recalled = knobs_of(state.asked)
            return known.recalled is not None
        if world.generation != known.generation:
            known.changed, known.decision, known.recalled = True, None, None
        known.generation, known.settings, known.service = world.generation, settings, intent.service
        return False

    def forget(self, key: Key) -> None:
        """Drops a service that is gone or no longer tuned."""
        self._tuned.pop(key, None)
        self._claims.pop(key, None)

    def decide(self, key: Key, looked: Looked, now: float) -> bool:
        """Decides on one window. Whether that is anything people see; see `SignalsWatch`."""
        known = self._tuned.get(key)
        if known is None:
            return False
        trial = known.state.trial
        signals = replace(looked.signals, turn=self._turn(key, now))
        known.decision, known.state = self._decision(key, known, signals, now)
        self._claim(key, known, now)
        known.looked, known.changed = looked, False
        acted = bool(known.decision.actions) or _tried(trial) != _tried(known.state.trial)
        if acted:
            log.info("tuned: %s", known.decision.reason, extra={"service": f"{key[0]}/{key[1]}"})
        learnt = bool(looked.signals.arrivals.known) and now - known.kept_at >= KEPT_EVERY
        if acted or learnt or _tried(trial):
            known.kept, known.kept_at = json.dumps(known.state.dump(), sort_keys=True), now
        before = known.seen
        known.seen = seen(known.decision, known.state, looked, known.settings, known.seen)
        return known.seen != before or acted

    def _decision(self, key: Key, known: _Tuned, signals: Signals, now: float) -> tuple[Decision, State]:
        """The tuner's; where it fails, that of a window nobody can trust, so that people see it and knobs stay."""
        try:
            found = self.tune(known.settings, signals, known.state, now)
        except Exception as error:  # figures nobody thought of, or a fault of ours: no reason to stop the others
            why = f"the tuner cannot make sense of this window ({in_words(error)})"
            if why != known.failed:  # once, not with every window
                log.exception("no decision, the knobs stay: %s", error, extra={"service": f"{key[0]}/{key[1]}"})
            known.failed = why
            return distrusted(known.settings, signals, known.state, now, why)
        known.failed = ""
        return found

    def _turn(self, key: Key, now: float) -> Turn:
        """When the service may begin a reload: all services of this operator share a budget of them."""
        made = {other: spent(known.state.guard.changes, now) for other, known in self._tuned.items()}
        return turn_of(key, made, self._claims, now)

    def _claim(self, key: Key, known: _Tuned, now: float) -> None:
        """Notes that the service waits for its turn, or that it no longer does."""
        old = self._claims.pop(key, None)
        if known.decision is not None and known.decision.claims and known.settings.mode is TuningMode.AUTO:
            self._claims[key] = Claim(old.since if old else now, now)

    def knobs(self, key: Key, uid: str, generation: int) -> Knobs | None:
        """The knobs decided for this spec; None where nothing has been decided for it yet, or nothing may move."""
        known = self._tuned.get(key)
        if known is None or (known.uid, known.generation) != (uid, generation):
            return None
        if known.settings.mode is not TuningMode.AUTO:
            return None
        return known.decision.knobs if known.decision else known.recalled

    def canary(self, key: Key, uid: str, generation: int, knobs: Knobs) -> Canary | None:
        """The replica that is to have other knobs than `knobs`, those in force; None: none is."""
        known = self._tuned.get(key)
        if known is None or (known.uid, known.generation) != (uid, generation):
            return None
        found = on_trial(known.state.trial, known.settings, knobs)
        return Canary(*found, next(iter(known.settings.objectives), None)) if found else None

    def changed(self, key: Key) -> bool:
        """Whether the spec has changed since the last window."""
        known = self._tuned.get(key)
        return known is not None and known.changed

    def seen(self, key: Key) -> Seen | None:
        """What people shall see of the last decision."""
        known = self._tuned.get(key)
        return known.seen if known else None

    def told(self, key: Key) -> str:
        """What was changed and nobody was told of yet, in words; asked once, it is told."""
        known = self._tuned.get(key)
        if known is None or known.seen is None or not known.seen.told:
            return ""
        said, known.seen = known.seen.told, replace(known.seen, told="")
        return said

    def desired(self) -> Mapping[Key, int]:
        """Replicas that the tuner would have, by service: for autoscalers that own them."""
        return {key: known.decision.proposed.replicas for key, known in self._tuned.items() if known.decision}

    def memory(self, key: Key) -> Manifest | None:
        """The ConfigMap with what is remembered; None where nothing is yet."""
        known = self._tuned.get(key)
        return build_tuning_memory(known.service, known.kept) if known and known.kept else None


def _tried(trial: Trial | None) -> object:
    """Which change one replica tries; None: none does."""
    return (trial.pod, trial.at) if trial is not None and trial.is_canary else None


def _stored(world: World) -> str:
    found = world.of(resources.CONFIG_MAP).get(memory_name(world.key[1]), {})
    return str((found.get("data") or {}).get(MEMORY_KEY) or "")


def _loads(text: str) -> object:
    try:
        return json.loads(text) if text else {}
    except ValueError:
        return {}
