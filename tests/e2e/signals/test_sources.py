"""The same window from a pod's page and from a real Prometheus, of a real tritonserver under load."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import aiohttp
import pytest

from llmservice.api.fleet import PrometheusConnection
from llmservice.api.knobs import Knobs
from llmservice.signals.adapters import NATIVE
from llmservice.signals.frame import Frame, ReadyPod
from llmservice.signals.measure import measure
from llmservice.signals.prometheus import Prometheus
from llmservice.signals.scrape import Scraper
from llmservice.signals.source import Histories, PodPages, Source, Target
from llmservice.tuning.measured import Replicas, Signals, Validity
from tests.serving.eventually import eventually_async
from tests.serving.paced_service import NAME, PacedService, paced_service
from tests.serving.real_prometheus import RealPrometheus, real_prometheus
from tests.serving.streams import stream_many

pytestmark = pytest.mark.e2e

POD = ("chat", "chat-1a2b3c4d-0")
REQUESTS, TOKENS = 120, 16
SCRAPE = 1.0
NOT_EXPORTED_YET = {"llm_gate_batches_total"}
"""A counter that appears with what it counts for the first time."""


@pytest.fixture(scope="module")
def service() -> Iterator[PacedService]:
    with paced_service() as running:
        yield running


@dataclass
class Watched:
    """One source, and what it has told so far."""

    source: Source
    target: Target
    histories: Histories = field(default_factory=dict)

    async def look(self) -> str:
        return await self.source.collect([self.target], self.histories, time.time())

    def window(self, since: float) -> Signals:
        """The signals since a moment, until the newest sample."""
        until = self.histories[POD].newest() or since
        frame = Frame(
            service=NAME,
            since=since,
            until=until,
            scrape_interval=SCRAPE,
            knobs=Knobs(slots=18),
            replicas=Replicas(ready=1),
            pods=(ReadyPod(POD[1], 1000),),
        )
        return measure(NATIVE, frame, {POD[1]: self.histories[POD]})

    async def saw_all(self, since: float) -> bool:
        """Whether its newest sample is of after the load: gate and engine export on their own, moments apart."""
        await self.look()
        if POD not in self.histories:
            return False
        signals = self.window(since)
        answered = round((signals.completions.known or 0) * signals.window_seconds)
        return answered == REQUESTS and sequence_steps(signals) >= REQUESTS * TOKENS


def sequence_steps(signals: Signals) -> float:
    """Steps of every sequence: in `Continuous` one token each."""
    return sum(step.count * step.batch_size for step in signals.steps)


def prometheus_of(prometheus: RealPrometheus) -> Prometheus:
    return Prometheus(PrometheusConnection(url=prometheus.url), 15.0)


async def test_a_page_and_a_prometheus_tell_the_same(service: PacedService) -> None:
    target = Target(POD, service.server.metrics_url, NATIVE.names())
    address = urlsplit(service.server.metrics_url).netloc
    async with (
        real_prometheus(address, namespace=POD[0], pod=POD[1]) as prometheus,
        aiohttp.ClientSession() as session,
    ):
        pages = Watched(PodPages(Scraper(session)), target)
        stored = Watched(prometheus_of(prometheus), target)

        async def both_have_looked() -> bool:
            return not await pages.look() and not await stored.look() and POD in stored.histories

        await eventually_async(both_have_looked, 60, "Prometheus has scraped the pod")
        since = time.time()
        load = await stream_many(service.server.http_url, streams=24, requests=REQUESTS, max_tokens=TOKENS)
        assert load.whole, load.errors
        for watched in (pages, stored):
            await eventually_async(lambda: watched.saw_all(since), 60, f"{watched.source.name} saw the load")  # noqa: B023
        for signals in (pages.window(since), stored.window(since)):
            assert round(signals.arrivals.known_or(0) * signals.window_seconds) == REQUESTS
            assert signals.output_tokens.known == pytest.approx(TOKENS, rel=0.02)
            assert sequence_steps(signals) == pytest.approx(REQUESTS * TOKENS)
            assert signals.time_to_first_token.p99.samples == REQUESTS
            assert signals.queue_depth.validity is Validity.ZERO
            assert signals.contradictions == ()
        exported = {series.name for series in pages.histories[POD].points}
        assert NATIVE.names() - exported <= NOT_EXPORTED_YET

        prometheus.stop()
        assert "does not answer" in await stored.look()
        prometheus.empty()
        await prometheus.start()
        stored.histories.clear()
        said = await stored.look()
        assert "no series of any pod" in said or POD in stored.histories, said


async def test_exact_step_times_are_the_engine_s(service: PacedService) -> None:
    async with aiohttp.ClientSession() as session:
        pages = Watched(PodPages(Scraper(session)), Target(POD, service.server.metrics_url, NATIVE.names()))
        await pages.look()
        since = time.time()
        await stream_many(service.server.http_url, streams=16, requests=64, max_tokens=TOKENS)

        async def saw_every_token() -> bool:
            await pages.look()
            return sequence_steps(pages.window(since)) >= 64 * TOKENS

        await eventually_async(saw_every_token, 60, "the steps are exported")
        for step in pages.window(since).steps:
            paced = service.pace.step_seconds + step.batch_size * service.pace.sequence_seconds
            assert step.seconds / step.count >= paced
