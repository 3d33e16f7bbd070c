"""Admits requests to engine instances, one by one or as batches, and watches for clients that leave."""

from __future__ import annotations

import itertools
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from llmgate.client import Client, Fault
from llmgate.gate_metrics import GateMetrics
from llmgate.instances import Instances
from llmgate.link import EngineGoneError, Link
from llmgate.request import Prompt
from llmgate.stream import Stream
from llmserving.engine import Request
from llmserving.parameters import MeetingPlace, Mode
from llmserving.server_process import ServerProcess

LOOK_SECONDS: Final = 0.1
"""A look for cancellation is a round trip to the server, so each stream is looked at this seldom."""
WATCH_SECONDS: Final = 0.02
ENGINE_WAIT_SECONDS: Final = 10.0
"""How long requests wait for an engine instance to come when there is none."""


@dataclass
class _Waiting:
    prompt: Prompt
    stream: Stream


class Gate:
    """The gate of one service in one process.

    `engines_died` is called when the last engine instance ended without having said that it would: nothing but a new
    start of the server brings it back.
    """

    def __init__(
        self,
        place: MeetingPlace,
        mode: Mode,
        metrics: GateMetrics | None = None,
        engines_died: Callable[[str], None] | None = None,
        engine_wait: float = ENGINE_WAIT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._mode = mode
        self._metrics = metrics or GateMetrics()
        self._engine_wait = engine_wait
        self._clock = clock
        self._keys = itertools.count(1)
        self._ended = threading.Event()
        self._instances = Instances(place)
        self._server = ServerProcess(place)
        self._engines_died = engines_died or self._server.end
        self._seen = clock()
        self._watcher = threading.Thread(target=self._watch, name="watch", daemon=True)

    def start(self) -> None:
        """Connects to the instances there are and starts to watch."""
        self._instances.discover()
        self._watcher.start()

    def close(self) -> None:
        """Leaves every engine. Streams that were still inside fail."""
        self._ended.set()
        self._watcher.join(timeout=5)
        self._instances.close()
        self._server.see_off()

    def admit(self, requests: Sequence[tuple[Prompt, Client]]) -> None:
        """Waits until each request is inside an engine, or was answered. In `Static` and `Dynamic` they go as one."""
        waiting = [_Waiting(prompt, Stream(client, prompt, self._metrics, self._clock)) for prompt, client in requests]
        self._metrics.held.set(len(waiting))
        if self._mode.runs_batches:
            self._admit_batch(waiting)
        else:
            for left, one in enumerate(waiting):
                self._metrics.held.set(len(waiting) - left)
                self._admit_group([one], batch=None)
        self._metrics.held.set(0)

    def _admit_batch(self, waiting: list[_Waiting]) -> None:
        """A batch larger than an instance has slots goes in parts."""
        links = self._instances.admitting()
        most = max((link.slots.count for link in links), default=len(waiting)) or 1
        for start in range(0, len(waiting), most):
            self._admit_group(waiting[start : start + most], batch=next(self._keys))

    def _admit_group(self, group: list[_Waiting], batch: int | None) -> None:
        """Takes a slot for each and sends them together; those whose clients left meanwhile are dropped."""
        while group:
            if self._given_up():
                for one in group:
                    one.stream.fail("no engine instance is running; try again later", Fault.UNAVAILABLE)
                return
            taken = self._instances.take(len(group), LOOK_SECONDS)
            if taken is None:
                group = self._still_wanted(group)
                continue
            link, slots = taken
            try:
                if self._send(link, slots, group, batch):
                    return
            except EngineGoneError:
                continue

    def _send(self, link: Link, slots: list[int], group: list[_Waiting], batch: int | None) -> bool:
        """Sends what is still wanted, giving back slots that are not needed. Raises EngineGoneError."""
        wanted = self._still_wanted(group)
        for slot in slots[len(wanted) :]:
            link.slots.give(slot)
        if not wanted:
            return True
        admissions = []
        for slot, one in zip(slots, wanted, strict=False):
            prompt = one.prompt
            request = Request(
                key=next(self._keys),
                prompt=prompt.text,
                messages=prompt.messages,
                sampling=prompt.sampling,
                batch=batch,
                batch_size=len(wanted),
                deadline=one.stream.deadline,
            )
            one.stream.next_look = self._clock() + LOOK_SECONDS
            admissions.append((slot, request, one.stream))
        link.admit(admissions)
        for one in wanted:
            one.stream.admitted()
        return True

    def _still_wanted(self, group: list[_Waiting]) -> list[_Waiting]:
        """Ends those whose clients left, so that they never reach the engine."""
        wanted = []
        for one in group:
            if one.stream.client_left():
                one.stream.cancel()
            else:
                wanted.append(one)
        return wanted

    def _given_up(self) -> bool:
        """Whether there has been no engine instance for too long, or the last one died."""
        if self._instances.admitting():
            self._seen = self._clock()
            return False
        return self._instances.missing > 0 or self._clock() - self._seen > self._engine_wait

    def _watch(self) -> None:
        while not self._ended.wait(WATCH_SECONDS):
            try:
                self._watch_once()
            except Exception:  # noqa: BLE001 -- without this thread nobody would see clients leave
                traceback.print_exc()

    def _watch_once(self) -> None:
        self._instances.discover()
        if self._instances.admitting():
            self._seen = self._clock()
        elif self._instances.missing:
            self._engines_died("no engine instance is left, and the last one died")
        self._look_for_cancelled()
        self._metrics.missing_engines.set(self._instances.missing)
        self._metrics.free_slots.set(self._instances.free_slots())
        self._metrics.admitted.set(sum(link.admitted for link in self._instances.links()))

    def _look_for_cancelled(self) -> None:
        now = self._clock()
        for link in self._instances.links():
            for key, stream in link.streams():
                if now >= stream.next_look:
                    stream.next_look = now + LOOK_SECONDS
                    if stream.client_left():
                        stream.next_look = float("inf")
                        link.cancel(key)
