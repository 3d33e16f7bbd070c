"""The gate of one service in one process: takes requests from Triton at once and holds them in a line of its own.

Threads: Triton's calls `admit`, one per engine instance relays tokens and admits when slots came free, one watches.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Final

from llmgate.admission import LOOK_SECONDS, Admission
from llmgate.client import Client, Fault
from llmgate.gate_metrics import GateMetrics
from llmgate.instances import Instances
from llmgate.levels import ONE_LEVEL, Levels
from llmgate.line import Line
from llmgate.request import InvalidRequestError, Prompt
from llmgate.stream import Stream
from llmgate.waiting import Waiting, expiry, level_of
from llmserving.parameters import MeetingPlace, Mode
from llmserving.server_process import ServerProcess

WATCH_SECONDS: Final = 0.02
POLL_SECONDS: Final = 0.005
"""Slots that another gate's streams give back are seen only by looking, while requests wait."""
LOOKS_PER_SECOND: Final = 100
"""Most looks for cancellation among those that wait, and among those inside: each takes 0.3 ms of a processor, with
Triton's side of it, and of many streams each is looked at less often. Whose turn comes is looked at once more."""
ENGINE_WAIT_SECONDS: Final = 10.0
"""How long requests wait for an engine instance to come when there is none."""


class Gate:
    """Requests wait here by level, clients of one level in turn, and go to the least loaded engine instance.

    `delay` is how long a `Static` batch that is not full waits, in seconds. `engines_died` is called when the last
    engine instance ended without having said that it would: nothing but a new start of the server brings it back.
    """

    def __init__(
        self,
        place: MeetingPlace,
        mode: Mode,
        metrics: GateMetrics | None = None,
        engines_died: Callable[[str], None] | None = None,
        levels: Levels = ONE_LEVEL,
        max_sequences: int = 1,
        delay: float = 0.0,
        engine_wait: float = ENGINE_WAIT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._levels = levels
        self._metrics = metrics or GateMetrics()
        self._engine_wait = engine_wait
        self._clock = clock
        self._ended = threading.Event()
        self._lock = threading.RLock()
        self._line: Line[Waiting] = Line(levels)
        self._instances = Instances(place, freed=self._admit_waiting)
        self._admission = Admission(
            self._line, self._instances, levels, mode, max_sequences, delay, self._metrics, clock, self._left
        )
        self._server = ServerProcess(place)
        self._engines_died = engines_died or self._server.end
        self._seen = clock()
        self._next_sweep = 0.0
        self._watcher = threading.Thread(target=self._watch, name="watch", daemon=True)

    def start(self) -> None:
        """Connects to the instances there are and starts to watch."""
        self._instances.discover()
        self._watcher.start()

    def close(self) -> None:
        """Leaves every engine. Requests that still wait, and streams that were still inside, fail."""
        self._ended.set()
        self._watcher.join(timeout=5)
        with self._lock:
            self._admission.refuse_all("the gate ended while the request waited; send it again")
        self._instances.close()
        self._server.see_off()

    def admit(self, requests: Sequence[tuple[Prompt, Client]]) -> None:
        """Puts requests in the line, and into engines as far as there are slots. Never waits for one."""
        with self._lock:
            joined = [one for prompt, client in requests if (one := self._join(prompt, client)) is not None]
            self._admission.run()
            for one in reversed(joined):
                if one in self._line and self._line.overfull(one.level):
                    self._admission.refuse_full(one)

    def _join(self, prompt: Prompt, client: Client) -> Waiting | None:
        stream = Stream(client, prompt, self._metrics, self._clock)
        try:
            level = stream.level = level_of(prompt, self._levels)
        except InvalidRequestError as error:
            stream.fail(str(error), Fault.INVALID_ARG)
            return None
        expires = expiry(prompt, stream, self._levels.limit(level).timeout)
        one = Waiting(prompt, stream, level, stream.arrived, expires)
        stream.next_look = stream.arrived + LOOK_SECONDS
        self._line.add(one)
        return one

    def _left(self, one: Waiting, prompt_tokens: int, output_tokens: int) -> None:
        """A request that had a slot ended."""
        with self._lock:
            self._line.ended(one, prompt_tokens, output_tokens)

    def _admit_waiting(self) -> None:
        """Slots came free."""
        with self._lock:
            if len(self._line):
                self._admission.run()

    def _watch(self) -> None:
        while not self._ended.wait(POLL_SECONDS if len(self._line) else WATCH_SECONDS):
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
        with self._lock:
            self._admission.refuse_expired()
            if self._given_up():
                self._admission.refuse_all("no engine instance is running; try again later")
            self._look_among_waiting()
            self._admission.run()  # with an empty line, too: other gates must not wait for who has gone
        self._look_among_admitted()
        self._tell()

    def _given_up(self) -> bool:
        """Whether there has been no engine instance for too long, or the last one died."""
        if self._instances.admitting():
            return False
        return self._instances.missing > 0 or self._clock() - self._seen > self._engine_wait

    def _look_among_waiting(self) -> None:
        now = self._clock()
        if now < self._next_sweep:
            return
        self._next_sweep = now + LOOK_SECONDS / 2
        period = _look_period(len(self._line))
        for one in list(self._line):
            if now >= one.stream.next_look:
                one.stream.next_look = now + period
                self._admission.drop_left(one)

    def _look_among_admitted(self) -> None:
        now = self._clock()
        links = self._instances.links()
        period = _look_period(sum(link.admitted for link in links))
        for link in links:
            for key, stream in link.streams():
                if now >= stream.next_look:
                    stream.next_look = now + period
                    if stream.client_left():
                        stream.next_look = float("inf")
                        link.cancel(key)

    def _tell(self) -> None:
        slots, free = self._instances.slots()
        self._metrics.slots.set(slots)
        self._metrics.free_slots.set(free)
        self._metrics.missing_engines.set(self._instances.missing)
        self._metrics.admitted.set(sum(link.admitted for link in self._instances.links()))
        for level in self._levels.known():
            self._metrics.held(level).set(self._line.size(level))


def _look_period(streams: int) -> float:
    """Seconds between two looks at one of so many streams."""
    return max(LOOK_SECONDS, streams / LOOKS_PER_SECOND)
