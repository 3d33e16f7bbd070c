"""A service on this host from its weights to its last stream: start, watch, start again, drain."""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
import time
from collections.abc import Awaitable, Coroutine, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import aiohttp

from llmservice.api.duration import format_duration
from llmservice.local.edit_follower import EditFollower
from llmservice.local.ending import Ending
from llmservice.local.endpoint import local_endpoint
from llmservice.local.errors import LocalError
from llmservice.local.figures import Figures, Look, read_page
from llmservice.local.greeting import lines_to_copy, openai_lines
from llmservice.local.intent import Intent
from llmservice.local.live import LiveKnobs
from llmservice.local.replica import Replica
from llmservice.local.screen import Screen
from llmservice.local.watched_file import WatchedFile
from llmservice.local.weights import bring_weights
from llmservice.openai.routes import Endpoint
from llmservice.repository.source_folders import source_folders
from llmservice.workload.openai import served_names
from llmservice.workload.probes import startup_budget

TICK_SECONDS: Final = 1.0
POLL_SECONDS: Final = 0.1
PAGE_SECONDS: Final = 2.0
STEADY_SECONDS: Final = 60.0
"""A server that served for so long died of something new: its next start does not wait long."""
LONGEST_PAUSE: Final = 30.0
LOG_LINES: Final = 12
STOP_MARGIN: Final = 10.0
"""Seconds after the drain in which models unload."""
NOT_KNOWN: Final = 1 << 30
"""Gate processes of a page that cannot be read: not known to be one gate only."""


@dataclass
class Session:
    """One run. `follower` knows the intent that runs; `file` is None where the manifest came from standard input."""

    follower: EditFollower
    replica: Replica
    screen: Screen
    weights: Path
    file: WatchedFile | None = None
    figures: Figures = field(init=False)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    stop_now: asyncio.Event = field(default_factory=asyncio.Event)
    endpoint: Endpoint | None = None

    def __post_init__(self) -> None:
        self.figures = Figures(self.intent.service.metadata.name)

    @property
    def intent(self) -> Intent:
        """What runs."""
        return self.follower.intent

    async def run(self) -> None:
        """Serves until a signal asks to stop, then drains. Raises LocalError when the service cannot be started."""
        with self._signals():
            service = self.intent.service
            source, folders = service.spec.model.source, source_folders(service)
            if await self._unless_stopped(bring_weights(source, self.weights, self._tell_weights, folders)):
                self.screen.say(f"weights ready in {self.weights}")
                await self._serve()
            else:
                self.screen.say("stopped; what is there of the weights is kept for the next run")

    async def _serve(self) -> None:
        try:
            async with local_endpoint(self.intent, self.replica.ports) as self.endpoint:
                if await self._keep_running():
                    await self._drain()
        finally:
            self.replica.kill()
            await asyncio.to_thread(self.replica.clear_up)

    async def _keep_running(self) -> bool:
        """Starts the server, and again when it ended, until a stop is asked for: whether there may be streams then.

        The first start has to succeed.
        """
        failures, served = 0, False
        while not self.stop.is_set():
            launched = time.monotonic()
            if await self._start():
                self._greet(again=served)
                served = True
                await self._watch()
                if self.stop.is_set():
                    return True
            if self.stop.is_set():
                break
            ending = await asyncio.to_thread(self.replica.clear_up)
            if not served:
                raise LocalError(f"tritonserver could not start: {ending.cause}{self._evidence(ending)}")
            failures = 1 if time.monotonic() - launched > STEADY_SECONDS else failures + 1
            pause = restart_pause(failures)
            self.screen.say(f"tritonserver ended: {ending.cause}. It is started again in {pause:g} s")
            await _first(self.stop.wait(), within=pause)
        self.screen.say("stopped before it served")
        return False

    def _evidence(self, ending: Ending) -> str:
        """The end of the log, where it explains nothing by itself."""
        return "" if ending.explained else f"; the last of its log:\n{self.replica.server.log_tail(LOG_LINES)}"

    async def _start(self) -> bool:
        """Whether the server became ready; tells how long it takes."""
        server = self.replica.launch(self.intent)
        started = time.monotonic()
        budget = startup_budget(self.intent.plan).total_seconds()
        names = " and ".join(model.name for model in self.intent.repository.models)
        while not await asyncio.to_thread(server.ready):
            took = time.monotonic() - started
            if not server.running() or self.stop.is_set():
                return False
            if took > budget:
                self.screen.say(f"not ready within {budget:g} s, so this start is ended")
                server.kill()
                return False
            self.screen.live(f"starting tritonserver, loading {names}: {took:.0f} s")
            await _first(self.stop.wait(), within=POLL_SECONDS)
        self.screen.say(f"ready after {time.monotonic() - started:.1f} s")
        return True

    def _greet(self, *, again: bool) -> None:
        if again:
            self.screen.say("it serves again, on the same ports")
            return
        self.screen.say("try it:")
        service = self.intent.service
        lines = openai_lines(served_names(service)[0], self.replica.ports) if self.endpoint else []
        for line in lines + lines_to_copy(service.metadata.name, self.replica.ports):
            self.screen.say(f"  {line}")

    async def _watch(self) -> None:
        """Shows figures and follows edits until the server ends or a stop is asked for."""
        self.figures.restart()
        async with aiohttp.ClientSession() as http:

            async def gate_processes() -> int:
                look = await self._look(http)
                return look.sample.gate_processes if look else NOT_KNOWN

            address = self.replica.server.grpc_address
            knobs = LiveKnobs(address, self.replica.token, gate_processes, self.screen.say)
            following = asyncio.create_task(self.follower.follow(knobs))
            try:
                while self.replica.server.running() and not self.stop.is_set():
                    await self._tick(http)
                    await _first(self.stop.wait(), within=TICK_SECONDS)
            finally:
                await _cancelled(following)

    async def _tick(self, http: aiohttp.ClientSession) -> None:
        if self.file is not None:
            if self.file.edited():
                self.follower.edited.set()
            if self.file.vanished():
                self.screen.say(f"{self.file.path} is gone: serving what it said before; write it again to edit")
        if look := await self._look(http):
            self.figures.add(look)
            delay = format_duration(self.intent.knobs.max_queue_delay)
            self.screen.live(f"{self.figures.line(datetime.now(UTC))} · delay {delay}")
        if self.screen.gone:
            self.stop.set()

    async def _look(self, http: aiohttp.ClientSession) -> Look | None:
        """The metrics page; None where it cannot be read just now."""
        limit = aiohttp.ClientTimeout(total=PAGE_SECONDS)
        try:
            async with http.get(self.replica.server.metrics_url, timeout=limit) as answer:
                return read_page(await answer.text(), self.intent.service.metadata.name, time.monotonic())
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return None

    async def _drain(self) -> None:
        """Takes no more requests, lets streams end within `drain.timeout`, and ends the server."""
        server = self.replica.server
        if not server.running():
            return
        timeout = self.intent.service.spec.drain.timeout
        allowed = format_duration(timeout)
        self.screen.say(f"stopping: no new requests; streams have {allowed} to end, Ctrl-C again ends them now")
        if self.endpoint is not None:
            self.endpoint.draining = True
        server.terminate()
        started = time.monotonic()
        limit = math.ceil(timeout / timedelta(seconds=1)) + STOP_MARGIN
        async with aiohttp.ClientSession() as http:
            while server.running() and not self.stop_now.is_set() and time.monotonic() - started < limit:
                look = await self._look(http)
                left = (
                    "" if look is None or look.sample.running is None else f", streams left: {look.sample.running:.0f}"
                )
                self.screen.live(f"draining for {time.monotonic() - started:.0f} s of {allowed}{left}")
                await _first(self.stop_now.wait(), within=POLL_SECONDS)
        how = "before all streams had ended" if server.running() else "after all streams had ended"
        self.screen.say(f"stopped {how}, {time.monotonic() - started:.1f} s after the signal")

    def _tell_weights(self, words: str) -> None:
        self.screen.live(f"weights: {words}")

    async def _unless_stopped(self, work: Coroutine[Any, Any, None]) -> bool:
        """Whether `work` was done before a stop was asked for; else it is cancelled."""
        task = asyncio.create_task(work)
        await _first(task, self.stop.wait())
        if self.stop.is_set():
            await _cancelled(task)
            return False
        await task
        return True

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        calls = {
            signal.SIGINT: self._asked_to_stop,
            signal.SIGTERM: self._asked_to_stop,
            signal.SIGHUP: self.follower.edited.set,
        }
        for number, call in calls.items():
            loop.add_signal_handler(number, call)
        try:
            yield
        finally:
            for number in calls:
                loop.remove_signal_handler(number)

    def _asked_to_stop(self) -> None:
        (self.stop_now if self.stop.is_set() else self.stop).set()


def restart_pause(failures: int) -> float:
    """Seconds before the next start after so many ends in a row."""
    return min(LONGEST_PAUSE, 2.0 ** (failures - 1))


async def _first(*work: Awaitable[Any], within: float | None = None) -> None:
    """Returns when one of `work` is done or `within` seconds have passed; coroutines among it are cancelled then."""
    tasks = [asyncio.ensure_future(one) for one in work]
    await asyncio.wait(tasks, timeout=within, return_when=asyncio.FIRST_COMPLETED)
    for task, one in zip(tasks, work, strict=True):
        if task is not one:
            task.cancel()


async def _cancelled(task: asyncio.Task[None]) -> None:
    """Returns when `task` has ended."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
