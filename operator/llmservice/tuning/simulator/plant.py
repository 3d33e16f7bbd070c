"""A service as the tuner's actuators and sensors see it: replicas that come, serve, change and go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmservice.api.knobs import Knobs
from llmservice.tuning.simulator.accelerate import available
from llmservice.tuning.simulator.kinds import Kind
from llmservice.tuning.simulator.load import Load
from llmservice.tuning.simulator.replica import Pace, Replica, Setting, new_state

Floats = NDArray[np.float64]

DRAIN_LOOK: Final = 5.0
"""Seconds between two looks whether a replica is drained."""


@dataclass(frozen=True)
class PlantTimes:
    """How long changes take, in seconds, and what a reload costs while it lasts."""

    cold_start: float = 180.0
    cold_start_spread: float = 0.05
    """Standard deviation of the cold start, relative."""
    instance_start: float = 10.0
    reload: float = 30.0
    reload_slowdown: float = 0.03
    drain_timeout: float = 300.0


@dataclass
class Tally:
    """What happened so far, for the judge rather than for the tuner."""

    replica_seconds: float = 0.0
    busy_seconds: float = 0.0
    dropped: int = 0
    """Requests that no replica took, or that were still inside when a drain's time was up."""
    dropped_by_scaling: int = 0
    replica_changes: int = 0
    delay_reloads: int = 0
    instance_changes: int = 0
    replica_path: list[tuple[float, int]] = field(default_factory=list)
    """(when, replicas wanted) at each change."""
    delay_path: list[tuple[float, float]] = field(default_factory=list)
    instance_path: list[tuple[float, int]] = field(default_factory=list)


class Plant:
    """Replicas of one engine kind under one load. `advance` moves time; `set_knobs` is what the operator would do."""

    def __init__(
        self,
        kind: Kind,
        knobs: Knobs,
        load: Load,
        *,
        times: PlantTimes | None = None,
        seed: int = 0,
        jit: bool | None = None,
    ) -> None:
        self.pace = Pace(kind)
        self.load = load
        self.times = times or PlantTimes()
        self.clock = 0.0
        self.knobs = knobs
        self.tally = Tally()
        self.replicas: list[Replica] = []
        self.schedule_delay = 0.0
        """Seconds a new pod waits for a node; infinite where there is none."""
        self.reload_fails = False
        self.jit = available() if jit is None else jit
        self._random = np.random.default_rng([seed, 7])
        self._next = 0
        self._created = 0
        self._later: list[tuple[float, Callable[[], None]]] = []
        for _ in range(knobs.replicas):
            self._create(ready=0.0)
        self._note_paths()

    @property
    def setting(self) -> Setting:
        """The knobs in force on most replicas."""
        return next((one.setting for one in self.replicas if one.is_ready(self.clock)), self.replicas[0].setting)

    @property
    def changing(self) -> bool:
        """Whether a reload or a new instance is under way."""
        return bool(self._later)

    def knobs_in_force(self) -> Knobs:
        """What most replicas run with, and how many there are to be."""
        setting = self.setting
        return Knobs(
            max_queue_delay=timedelta(seconds=setting.delay),
            engine_instances=setting.instances,
            slots=setting.slots,
            replicas=self.knobs.replicas,
        )

    def ready(self) -> list[Replica]:
        """Replicas that take requests."""
        return [one for one in self.replicas if one.is_ready(self.clock)]

    def wanted(self) -> list[Replica]:
        """Replicas that are not on their way out."""
        return [one for one in self.replicas if one.draining_since is None]

    def set_knobs(self, knobs: Knobs) -> None:
        """Starts whatever leads from the knobs asked for last to these."""
        old, self.knobs = self.knobs, knobs
        if knobs.replicas != old.replicas:
            self.tally.replica_changes += 1
            self._scale(knobs.replicas)
        if knobs.engine_instances != old.engine_instances:
            self.tally.instance_changes += 1
            grow = knobs.engine_instances > old.engine_instances
            self._after(self.times.instance_start if grow else 0.0, self._put_instances)
        if knobs.max_queue_delay != old.max_queue_delay:
            self.tally.delay_reloads += 1
            self.pace.speed = 1.0 - self.times.reload_slowdown
            self._after(self.times.reload, self._put_delay)
        for one in self.replicas:
            one.setting.slots = knobs.slots
        self._note_paths()

    def advance(self, until: float) -> list[Floats]:
        """Runs all replicas to `until`. Returns the requests that finished, one array of rows a replica and piece."""
        finished = []
        while self.clock < until:
            edge = min([until, *(at for at in self._edges() if at > self.clock)])
            finished += self._piece(edge)
            self.clock = edge
            self._happen()
        return finished

    def _edges(self) -> list[float]:
        moments = [at for at, _ in self._later]
        moments += [one.ready for one in self.replicas]
        draining = [one.draining_since for one in self.replicas if one.draining_since is not None]
        moments += [since + self.times.drain_timeout for since in draining]
        if draining:
            moments.append(self.clock + DRAIN_LOOK)
        return moments

    def _piece(self, until: float) -> list[Floats]:
        end = int(np.searchsorted(self.load.times, until, side="left"))
        rows = np.column_stack(
            (
                self.load.times[self._next : end],
                self.load.input_tokens[self._next : end],
                self.load.output_tokens[self._next : end],
            )
        )
        self._next = end
        ready = self.ready()
        if not ready:
            self.tally.dropped += len(rows)
        chosen = self._random.integers(0, max(1, len(ready)), len(rows)) if len(ready) > 1 else None
        finished = []
        for replica in self.replicas:
            mine = rows[:0]
            if replica in ready:
                mine = rows if chosen is None else rows[chosen == ready.index(replica)]
            busy = float(replica.state.busy[0])
            done = replica.advance(self.clock, until, mine, self.pace)
            self.tally.busy_seconds += float(replica.state.busy[0]) - busy
            if len(done):
                finished.append(done)
            self.tally.replica_seconds += max(0.0, until - max(self.clock, replica.scheduled))
        return finished

    def _happen(self) -> None:
        """What falls due at this moment."""
        due = [action for at, action in self._later if at <= self.clock]
        self._later = [(at, action) for at, action in self._later if at > self.clock]
        for action in due:
            action()
        for one in list(self.replicas):
            if one.draining_since is None:
                continue
            late = self.clock >= one.draining_since + self.times.drain_timeout
            if one.empty or late:
                lost = 0 if one.empty else one.inside + len(one.waiting)
                self.tally.dropped += lost
                self.tally.dropped_by_scaling += lost
                one.removed = self.clock
                self.replicas.remove(one)

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        if seconds <= 0:
            action()
        else:
            self._later.append((self.clock + seconds, action))

    def _put_instances(self) -> None:
        for one in self.replicas:
            one.setting.instances = self.knobs.engine_instances

    def _put_delay(self) -> None:
        self.pace.speed = 1.0
        if self.reload_fails:
            self.knobs = self.knobs.model_copy(update={"max_queue_delay": timedelta(seconds=self.setting.delay)})
            return
        for one in self.replicas:
            one.setting.delay = self.knobs.max_queue_delay.total_seconds()

    def _scale(self, count: int) -> None:
        present = self.wanted()
        for _ in range(count - len(present)):
            spread = 1.0 + self.times.cold_start_spread * float(np.clip(self._random.standard_normal(), -3, 3))
            self._create(ready=self.clock + self.schedule_delay + self.times.cold_start * spread)
        # Those that serve nobody yet go first, then the newest.
        newest = sorted(present, key=lambda one: (one.ready, one.created), reverse=True)
        for one in newest[: max(0, len(present) - count)]:
            if one.is_ready(self.clock):
                one.draining_since = self.clock
            else:
                one.removed = self.clock
                self.replicas.remove(one)

    def _create(self, ready: float) -> None:
        self._created += 1
        setting = Setting(self.knobs.max_queue_delay.total_seconds(), self.knobs.engine_instances, self.knobs.slots)
        state = new_state(self.pace.kind, int(self._random.integers(1, 2**31)))
        scheduled = self.clock + self.schedule_delay
        self.replicas.append(
            Replica(f"replica-{self._created}", self.clock, scheduled, ready, setting, state, self.jit)
        )

    def _note_paths(self) -> None:
        moment = self.clock
        self.tally.replica_path.append((moment, self.knobs.replicas))
        self.tally.delay_path.append((moment, self.knobs.max_queue_delay.total_seconds()))
        self.tally.instance_path.append((moment, self.knobs.engine_instances))
