"""Reads every service that has ready pods, makes a window of every two looks, and wakes only for what changed."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from llmservice.api.fleet import FleetDefaults
from llmservice.api.knobs import Knobs
from llmservice.api.status import SignalsStatus
from llmservice.kube.clock import Clock
from llmservice.signals.adapters import Adapter
from llmservice.signals.canary import Canary
from llmservice.signals.columns import columns
from llmservice.signals.engine_start import EngineStart, engine_start
from llmservice.signals.frame import Frame, ReadyPod
from llmservice.signals.measure import measure
from llmservice.signals.series import PodHistory
from llmservice.signals.source import Histories, Source, Target, forget
from llmservice.tuning.measured import MISSING, Measured, Replicas, Signals, UnderWay

SCRAPE_INTERVAL: Final = FleetDefaults().signals_interval.total_seconds()
"""Seconds between two looks at one service, unless the fleet says otherwise."""
LOOKS: Final = 2
"""Of a window."""
INTERVAL: Final = LOOKS * SCRAPE_INTERVAL
"""Seconds of a window: at most two status writes a minute for what it tells."""
LONGEST_WORDS: Final = 160
"""Letters of an exception that a status has room for; the log has all of it."""
KEPT_WINDOWS: Final = 6
"""For how long samples are kept."""

Key = tuple[str, str]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Asked:
    """A service as the last pass saw it: which pods to read, and what its window has to know beside their series.

    `ready_since` are seconds since the epoch by pod name.
    """

    adapter: Adapter
    targets: tuple[Target, ...]
    ready_since: Mapping[str, float]
    knobs: Knobs
    replicas: Replicas
    under_way: tuple[UnderWay, ...] = ()
    replicas_owner: str = ""
    free_accelerators: Measured = MISSING
    canary: Canary | None = None


@dataclass(frozen=True)
class Looked:
    """What one window told. `fault`: what is wrong with the source as a whole, in words."""

    signals: Signals
    figures: SignalsStatus
    fault: str = ""


@dataclass
class _Watched:
    asked: Asked
    due: float
    since: float | None = None
    last: Looked | None = None


Decide = Callable[[Key, Looked, float], bool]
"""Told of each window with the time, seconds since the epoch; answers whether that changed what people see."""


@dataclass
class SignalsWatch:
    """The signals of every service that has ready pods."""

    source: Source
    clock: Clock
    wake: Callable[[Key], None]
    decide: Decide = lambda _key, _looked, _now: False
    interval: float = SCRAPE_INTERVAL
    """Seconds between two looks at one service; a window has `LOOKS`."""
    _watched: dict[Key, _Watched] = field(default_factory=dict)
    _histories: Histories = field(default_factory=dict)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def watch(self, key: Key, asked: Asked | None) -> None:
        """Sets what to read for a service; None, or no pods, stops it."""
        if asked is None or not asked.targets:
            self._watched.pop(key, None)
            return
        known = self._watched.get(key)
        if known is None:
            self._watched[key] = _Watched(asked, due=self.clock.monotonic())
            self._changed.set()
        else:
            known.asked = asked

    def latest(self, key: Key) -> Looked | None:
        """The last window; None where there was none or no pod is ready."""
        known = self._watched.get(key)
        return known.last if known else None

    def engine_starts(self, key: Key) -> dict[str, EngineStart]:
        """How each watched pod's engine started, by the pod's name; without those that do not tell."""
        known = self._watched.get(key)
        found = {}
        for target in known.asked.targets if known else ():
            history = self._histories.get(target.pod)
            start = engine_start(history, known.asked.adapter) if known and history else None
            if start is not None:
                found[target.pod[1]] = start
        return found

    async def run(self, stop: asyncio.Event) -> None:
        """Looks at what is due until `stop` is set."""
        stopped = asyncio.create_task(stop.wait())
        stopped.add_done_callback(lambda _: self._changed.set())
        try:
            while not stop.is_set():
                await self._round()
        finally:
            stopped.cancel()

    async def _round(self) -> None:
        """Looks at what is due, then waits for the next or for a change."""
        self._changed.clear()
        now = self.clock.monotonic()
        due = {key: known for key, known in self._watched.items() if known.due <= now}
        if due:
            await self._look(due)
        soonest = min((known.due for known in self._watched.values()), default=now + self.interval)
        await self.clock.wait(self._changed, max(0.1, soonest - self.clock.monotonic()))

    async def _look(self, due: Mapping[Key, _Watched]) -> None:
        """One look at all that is due, so that a source asks once for all. Later looks fall on one grid for that."""
        for known in due.values():
            known.due = (math.floor(self.clock.monotonic() / self.interval) + 1) * self.interval
        targets = [target for known in due.values() for target in known.asked.targets]
        fault = await self.source.collect(targets, self._histories, self._now())
        now = self._now()
        wanted = {target.pod: None for known in self._watched.values() for target in known.asked.targets}
        forget(self._histories, wanted, now - KEPT_WINDOWS * LOOKS * self.interval)
        for key, known in due.items():
            whole = known.since is not None and now - known.since >= (LOOKS - 0.5) * self.interval
            if self._watched.get(key) is known and (known.since is None or whole):
                self._window_alone(key, known, now, fault)

    def _window_alone(self, key: Key, known: _Watched, now: float, fault: str) -> None:
        """A window of one service, whose fault is its own: all others are looked at by the same task."""
        try:
            self._window(key, known, now, fault)
        except Exception as error:  # the task goes on for all others
            log.exception("window failed, its knobs stay: %s", error, extra={"service": f"{key[0]}/{key[1]}"})

    def _window(self, key: Key, known: _Watched, now: float, fault: str) -> None:
        asked = known.asked
        frame = Frame(
            service=key[1],
            since=now if known.since is None else known.since,
            until=now,
            scrape_interval=self.interval,
            knobs=asked.knobs,
            replicas=asked.replicas,
            pods=tuple(ReadyPod(name, now - since) for name, since in asked.ready_since.items()),
            under_way=asked.under_way,
            replicas_owner=asked.replicas_owner,
            free_accelerators=asked.free_accelerators,
            canary=asked.canary,
        )
        first, before = known.since is None, known.last
        looked = self._measured(key, frame, asked, fault, before)
        known.since, known.last = now, looked
        shown = _shown(looked) != _shown(before)
        decided = not first and self.decide(key, looked, now)
        if shown or decided:
            self.wake(key)
        elif before is not None:
            known.last = replace(looked, figures=before.figures)

    def _measured(self, key: Key, frame: Frame, asked: Asked, fault: str, before: Looked | None) -> Looked:
        """What the window tells; of one whose pages cannot be made sense of, that and nothing else."""
        source, now = self.source.name, self.clock.now()
        try:
            signals = replace(measure(asked.adapter, frame, _of_service(self._histories, asked.targets)), fault=fault)
            return Looked(signals, columns(signals, source, now), fault)
        except Exception as error:  # what is on a page is not ours to choose
            why = fault or f"what the pods tell cannot be read ({in_words(error)})"
            if before is None or before.fault != why:  # once, not with every window
                log.exception("window failed, its knobs stay: %s", error, extra={"service": f"{key[0]}/{key[1]}"})
        blind = Signals(
            window_seconds=frame.until - frame.since,
            knobs=frame.knobs,
            replicas=frame.replicas,
            under_way=frame.under_way,
            replicas_owner=frame.replicas_owner,
            fault=why,
        )
        return Looked(blind, columns(blind, source, now), why)

    def _now(self) -> float:
        return self.clock.now().timestamp()


def in_words(error: Exception) -> str:
    """An exception for a status: its kind and the beginning of what it says."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= LONGEST_WORDS else f"{text[:LONGEST_WORDS]}…"


def _of_service(histories: Histories, targets: tuple[Target, ...]) -> dict[str, PodHistory]:
    return {target.pod[1]: histories[target.pod] for target in targets if target.pod in histories}


def _shown(looked: Looked | None) -> object:
    """What people see: without the time."""
    return (looked.figures.model_copy(update={"observed_at": None}), looked.fault) if looked else None
