"""The operator's process: checks, then candidacy; while it leads, it watches and reconciles; it ends when it may not.

A process that loses the Lease exits: nothing of it can then write by mistake, and Kubernetes starts it again as a
standby. A standby does nothing but wait for the Lease, and is ready.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Set
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from llmservice import __version__
from llmservice.api.fleet import FleetDefaults
from llmservice.capacity.pools import with_built_in_pools
from llmservice.kube.clock import SystemClock
from llmservice.kube.errors import KubeError
from llmservice.kube.events import Recorder
from llmservice.kube.lease import Elector
from llmservice.kube.real import RealKube, connect
from llmservice.kube.requests import Answered
from llmservice.process.checks import check_cluster
from llmservice.process.health import application, serve
from llmservice.process.login import login_by
from llmservice.process.logs import configure
from llmservice.process.metrics import OperatorMetrics, StateCollector
from llmservice.process.resync import resync
from llmservice.process.settings import OperatorSettings, StartupError, load_fleet, load_operator_key
from llmservice.process.state import ProcessState
from llmservice.process.watching import watch
from llmservice.reconcile.fleet_view import FleetView
from llmservice.reconcile.live import TritonLiveChanges
from llmservice.reconcile.reconciler import Reconciler
from llmservice.reconcile.tuner import Tuner
from llmservice.reconcile.work_queue import WorkQueue
from llmservice.signals.prometheus import Prometheus
from llmservice.signals.scrape import Scraper
from llmservice.signals.source import PodPages, Source
from llmservice.signals.statistics import TritonStatistics, WithStatistics
from llmservice.signals.watch import SignalsWatch

EXIT_OK, EXIT_LOST, EXIT_STARTUP = 0, 1, 2

log = logging.getLogger(__name__)


def run(settings: OperatorSettings) -> int:
    """Runs the operator until it is told to stop (0), loses leadership (1), or cannot start (2)."""
    configure(settings.log_level)
    try:
        fleet = with_built_in_pools(load_fleet(settings.fleet_file))
        key = load_operator_key(settings.operator_key_file)
        return asyncio.run(Process(settings, fleet, key).run())
    except StartupError as error:
        log.error("cannot start: %s", error)
        return EXIT_STARTUP


class Process:
    """One operator process."""

    def __init__(self, settings: OperatorSettings, fleet: FleetDefaults, operator_key: bytes) -> None:
        self._settings = settings
        self._fleet = fleet
        self._key = operator_key
        self._clock = SystemClock()
        self._stop = asyncio.Event()
        self._state = ProcessState(self._clock)
        self._metrics = OperatorMetrics()
        self._metrics.registry.register(StateCollector(self._state))

    async def run(self) -> int:
        """See `run`."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        async with self._connected() as client, self._pages():
            await check_cluster(client)
            self._state.started = True
            log.info("operator %s started, waits for its turn to lead", __version__, extra=self._who())
            return await self._serve(client)

    async def _serve(self, client: RealKube) -> int:
        """Candidate until told to stop or until leadership is lost."""
        elector = Elector(
            client,
            namespace=self._settings.lease_namespace,
            name=self._settings.lease_name,
            identity=self._settings.identity,
            times=self._settings.lease_times,
            clock=self._clock,
        )
        self._state.leads = lambda: elector.is_leader
        candidacy = asyncio.create_task(elector.run(), name="lease")
        lag = asyncio.create_task(self._state.measure_lag(self._stop))
        try:
            await self._turn(elector, candidacy)
            if self._stop.is_set():
                return EXIT_OK
            if not elector.is_leader:
                return EXIT_LOST
            return await self._lead(client, elector, candidacy)
        finally:
            self._stop.set()
            await lag
            candidacy.cancel()  # gives the Lease back, after the last write
            with contextlib.suppress(asyncio.CancelledError):
                await candidacy

    async def _turn(self, elector: Elector, candidacy: asyncio.Task[None]) -> None:
        """Returns once this process leads, is told to stop, or is no candidate any more."""
        waits = {asyncio.create_task(elector.leading.wait()), asyncio.create_task(self._stop.wait())}
        await asyncio.wait({*waits, candidacy}, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    async def _lead(self, client: RealKube, elector: Elector, candidacy: asyncio.Task[None]) -> int:
        """Watches and reconciles until told to stop (0) or until leadership, or a part of the work, is lost (1)."""
        await check_cluster(client)  # again: kopf never looks twice for a kind that it does not find
        settings, stop = self._settings, asyncio.Event()
        async with aiohttp.ClientSession() as session:
            scraper = Scraper(session)
            reconciler = Reconciler(
                client,
                self._fleet,
                self._key,
                self._clock,
                Recorder(client, settings.identity, self._clock),
                TritonLiveChanges(scraper.read, may_write=lambda: elector.is_leader),
                may_write=lambda: elector.is_leader,
                fleet_view=FleetView(client, self._clock, settings.namespaces),
            )
            queue = WorkQueue(
                reconciler.reconcile,
                self._clock,
                concurrency=settings.concurrency,
                observe=self._metrics.passed,
                expected=(KubeError,),
            )
            tuner = Tuner(self._fleet)
            every, prometheus = self._fleet.signals_interval.total_seconds(), self._fleet.prometheus
            source: Source = Prometheus(prometheus, every) if prometheus.url else PodPages(scraper)
            reconciler.tuner = tuner
            source = WithStatistics(source, TritonStatistics(session))
            reconciler.signals = SignalsWatch(source, self._clock, queue.wake, tuner.decide, every)
            self._state.queue, self._state.services = queue, lambda: reconciler.ready
            self._state.desired_replicas = tuner.desired
            login = login_by(settings.kubeconfig, settings.context)
            work: set[asyncio.Task[None]] = {
                asyncio.create_task(queue.run(stop, settings.shutdown_grace), name="queue"),
                asyncio.create_task(reconciler.signals.run(stop), name="signals"),
                asyncio.create_task(
                    resync(
                        client,
                        queue.wake,
                        self._clock,
                        stop,
                        namespaces=settings.namespaces,
                        seconds=settings.resync_seconds,
                    ),
                    name="resync",
                ),
                asyncio.create_task(watch(queue.wake, login, settings.namespaces, stop), name="watch"),
            }
            told = asyncio.create_task(self._stop.wait(), name="told")
            done, _ = await asyncio.wait({*work, candidacy, told}, return_when=asyncio.FIRST_COMPLETED)
            stop.set()
            ends = await asyncio.gather(*work, return_exceptions=True)
            told.cancel()
            self._explain(done, [end for end in ends if isinstance(end, BaseException)])
            return EXIT_OK if told in done else EXIT_LOST

    def _explain(self, done: Set[asyncio.Task[Any]], faults: list[BaseException]) -> None:
        for fault in faults:
            log.error("a part of the operator failed: %r", fault, exc_info=fault)
        log.info("stops working: %s", ", ".join(sorted(task.get_name() for task in done)), extra=self._who())

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[RealKube]:
        try:
            client = await connect(self._settings.kubeconfig, self._settings.context, on_answer=self._answered)
        except KubeError as error:
            raise StartupError(error.message) from error
        try:
            yield client
        finally:
            await client.close()

    @asynccontextmanager
    async def _pages(self) -> AsyncIterator[None]:
        settings = self._settings
        try:
            runner = await serve(application(self._state, self._metrics.registry), settings.host, settings.port)
        except OSError as error:
            raise StartupError(f"port {settings.port} of {settings.host} cannot be used: {error.strerror}") from error
        try:
            yield
        finally:
            await runner.cleanup()

    def _answered(self, call: Answered) -> None:
        self._state.answered(call)
        self._metrics.answered(call)

    def _who(self) -> dict[str, str]:
        return {"identity": self._settings.identity}
