"""A service on this host from its weights to its last stream: start, watch, follow edits, drain."""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import aiohttp

from llmservice.api.duration import format_duration
from llmservice.local.edits import plan_edit
from llmservice.local.errors import LocalError
from llmservice.local.figures import Figures, Look, read_page
from llmservice.local.greeting import lines_to_copy
from llmservice.local.intent import Host, Intent
from llmservice.local.live import LiveKnobs
from llmservice.local.replica import Replica
from llmservice.local.screen import Screen
from llmservice.local.watched_file import WatchedFile
from llmservice.local.weights import bring_weights
from llmservice.triton.errors import TritonError
from llmservice.triton.live import LiveChangeError
from llmservice.workload.probes import startup_budget

TICK_SECONDS: Final = 1.0
POLL_SECONDS: Final = 0.1
STEADY_SECONDS: Final = 60.0
"""A server that served for so long died of something new: the next start does not wait."""
LONGEST_PAUSE: Final = 30.0


@dataclass
class Session:
    """`read` gives the intent of the file as it is now and raises LocalError; `intent` is the first."""

    intent: Intent
    read: Callable[[], Intent]
    host: Host
    replica: Replica
    screen: Screen
    file: WatchedFile | None
    weights: Path
    figures: Figures = field(default_factory=Figures)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    stop_now: asyncio.Event = field(default_factory=asyncio.Event)
    edited: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Serves until a signal asks to stop, then drains. Raises LocalError when the service cannot be started."""
        with self._signals():
            tell = self.screen.live
            if await self._unless_stopped(bring_weights(self.intent.service.spec.model.source, self.weights, tell)):
                self.screen.say(f"weights ready: {self.weights}")
                await self._serve()

    async def _serve(self) -> None:
        failures = 0
        served_before = False
        try:
            while not self.stop.is_set():
                started = time.monotonic()
                if await self._start():
                    served_before = True
                    await self._watch_server()
                if self.stop.is_set():
                    break
                cause = await asyncio.to_thread(self.replica.clear_up)
                if not served_before:
                    raise LocalError(f"tritonserver could not start: {cause}\n{self.replica.server.log_tail(12)}")
                failures = 1 if time.monotonic() - started > STEADY_SECONDS else failures + 1
                pause = min(LONGEST_PAUSE, 2.0 ** (failures - 1))
                self.screen.say(f"tritonserver ended: {cause}; started again in {pause:g} s")
                await _first(self.stop.wait(), within=pause)
            await self._drain()
        finally:
            self.replica.server.kill()
            await asyncio.to_thread(self.replica.server.stop)

    async def _start(self) -> bool:
        """Whether the server became ready; tells how long it takes."""
        server = self.replica.launch(self.intent)
        started = time.monotonic()
        budget = startup_budget(self.intent.plan).total_seconds()
        while not await asyncio.to_thread(server.ready):
            took = time.monotonic() - started
            if not server.running() or self.stop.is_set():
                return False
            if took > budget:
                self.screen.say(f"not ready within {budget:g} s, ending this start")
                server.kill()
                return False
            self.screen.live(f"starting tritonserver, loading {' and '.join(self._models())}: {took:.0f} s")
            await _first(self.stop.wait(), within=POLL_SECONDS)
        self.screen.say(f"ready after {time.monotonic() - started:.1f} s. Try it:")
        for line in lines_to_copy(self.intent.service.metadata.name, self.replica.ports):
            self.screen.say(f"  {line}")
        return True

    async def _watch_server(self) -> None:
        """Shows figures and follows edits until the server ends or a stop is asked for."""
        self.figures.restart()
        follower = asyncio.create_task(self._follow_edits())
        try:
            async with aiohttp.ClientSession() as http:
                while self.replica.server.running() and not self.stop.is_set():
                    await self._tick(http)
                    await _first(self.stop.wait(), within=TICK_SECONDS)
        finally:
            follower.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await follower

    async def _tick(self, http: aiohttp.ClientSession) -> None:
        if self.file is not None and self.file.edited():
            self.edited.set()
        with contextlib.suppress(aiohttp.ClientError, TimeoutError, ValueError):  # the next look will do
            self.figures.add(await self._look(http))
            delay = format_duration(self.intent.knobs.max_queue_delay)
            self.screen.live(f"{self.figures.line(datetime.now(UTC))} · delay {delay}")
        if self.screen.gone:
            self.stop.set()

    async def _look(self, http: aiohttp.ClientSession) -> Look:
        async with http.get(self.replica.server.metrics_url, timeout=aiohttp.ClientTimeout(total=2)) as answer:
            page = await answer.text()
        return read_page(page, self.intent.service.metadata.name, time.monotonic())

    async def _follow_edits(self) -> None:
        """Brings each edit, the latest first: what came while one was brought is looked at afterwards."""
        async with aiohttp.ClientSession() as http:

            async def gate_processes() -> int:
                try:
                    return (await self._look(http)).sample.gate_processes
                except (aiohttp.ClientError, TimeoutError, ValueError):
                    return 1 << 30  # not known to be free

            address = self.replica.server.grpc_address
            knobs = LiveKnobs(address, self.replica.token, gate_processes, self.screen.say)
            while True:
                await self.edited.wait()
                self.edited.clear()
                try:
                    await self._bring_edit(knobs)
                except (LocalError, LiveChangeError, TritonError) as error:
                    self.screen.say(f"edit not applied: {error}")

    async def _bring_edit(self, knobs: LiveKnobs) -> None:
        self.screen.clear()
        edit = plan_edit(self.intent, self.read(), self.host)
        if not (edit.live or edit.restart or edit.without_effect):
            self.screen.say("edit: nothing that serves differs")
        for change in edit.live:
            self.screen.say(f"edit: {change.field} changes live: {change.reason}")
        for change in edit.restart:
            self.screen.say(f"edit: {change.field} needs a restart of this command: {change.reason}")
        for change in edit.without_effect:
            self.screen.say(f"edit: {change.field} changes nothing here: {change.reason}")
        await knobs.bring(edit.after.repository)
        self.intent = edit.after

    async def _drain(self) -> None:
        """Takes no more requests, lets streams end within `drain.timeout`, and ends the server."""
        server = self.replica.server
        if not server.running():
            return
        timeout = self.intent.service.spec.drain.timeout
        self.screen.say(f"stopping: streams end within {format_duration(timeout)}; Ctrl-C again ends them now")
        server.terminate()
        started = time.monotonic()
        limit = math.ceil(timeout / timedelta(seconds=1)) + 5
        while server.running() and not self.stop_now.is_set() and time.monotonic() - started < limit:
            self.screen.live(f"draining: {time.monotonic() - started:.0f} s of {format_duration(timeout)}")
            await _first(self.stop_now.wait(), within=POLL_SECONDS)
        ended = "stopped" if not server.running() else "stopped before all streams had ended"
        self.screen.say(f"{ended} after {time.monotonic() - started:.1f} s")

    def _models(self) -> list[str]:
        return [model.name for model in self.intent.repository.models]

    async def _unless_stopped(self, work: Coroutine[Any, Any, None]) -> bool:
        """Whether `work` was done before a stop was asked for; else it is cancelled."""
        task = asyncio.create_task(work)
        await _first(task, self.stop.wait())
        if not task.done():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            return False
        await task
        return True

    @contextlib.contextmanager
    def _signals(self) -> Any:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._asked_to_stop)
        loop.add_signal_handler(signal.SIGHUP, self.edited.set)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                loop.remove_signal_handler(number)

    def _asked_to_stop(self) -> None:
        (self.stop_now if self.stop.is_set() else self.stop).set()


async def _first(*work: Awaitable[Any], within: float | None = None) -> None:
    """Returns when one of `work` is done or `within` seconds have passed. What was made here is cancelled."""
    tasks = [asyncio.ensure_future(one) for one in work]
    given = [one for one in work if isinstance(one, asyncio.Task)]
    await asyncio.wait(tasks, timeout=within, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        if task not in given:
            task.cancel()
