"""A new queue delay is a reload of the gate by gRPC: nothing fails, nothing is cut short, no slot is lost."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import aiohttp
import pytest

from llmservice.repository.gate_config import GATE_INSTANCES
from llmservice.repository.render import Role
from llmservice.signals.scrape import Scraper
from llmservice.triton.client import TritonClient
from llmservice.triton.live import GateReloader, Outcome
from tests.serving.eventually import eventually, eventually_async
from tests.serving.paced_service import NAME, PacedService, paced_service
from tests.serving.streams import GrpcStream, stream_many

pytestmark = pytest.mark.e2e

RELOADS = 20
REQUESTS = 1000


async def test_twenty_delay_changes_under_a_thousand_requests_lose_nothing() -> None:
    with paced_service() as service:
        done = asyncio.Event()
        url = service.server.http_url
        short = asyncio.create_task(stream_many(url, 32, REQUESTS, 12, until=done.is_set))
        long = asyncio.create_task(stream_many(url, 1, 1, 300, until=done.is_set))

        reloads = await change_delay(service, RELOADS)
        done.set()
        load, across = await short, await long

        assert reloads == RELOADS
        assert load.requests >= REQUESTS
        assert load.whole, load.errors
        assert across.whole, across.errors
        await eventually(lambda: service.free_slots() == service.total_slots() == 18, 5, "every slot back")
        await eventually(lambda: len(service.processes(NAME)) == 2, 20, "the last old gate gone")
        assert "Signal (15)" not in service.server.log_tail(1000)


async def test_a_live_stream_stays_with_the_old_gate_until_its_end() -> None:
    with paced_service() as service, GrpcStream(service.server.grpc_address, max_tokens=100_000) as stream:
        assert await asyncio.to_thread(stream.text) == "t0 "
        before = service.processes(NAME)

        assert await change_delay(service, 1) == 1

        assert before < service.processes(NAME), "old and new gate live side by side"
        received = [await asyncio.to_thread(stream.text) for _ in range(100)]
        assert received == [f"t{number} " for number in range(1, 101)]
        stream.cancel()
        await eventually(lambda: not before & service.processes(NAME), 20, "the old gate gone")


async def change_delay(service: PacedService, times: int) -> int:
    """Changes the delay one after the other, each when the gate before is gone. Returns how many took."""
    applied = 0
    async with TritonClient(service.server.grpc_address) as client, aiohttp.ClientSession() as session:
        scraper = Scraper(session)

        async def old_gate_gone() -> bool:
            return (await scraper.read(service.server.metrics_url, NAME)).gate_processes == GATE_INSTANCES

        reloader = GateReloader(client, old_gate_gone)
        for number in range(1, times + 1):
            config = service.config(Role.GATE, max_queue_delay=timedelta(microseconds=500 * number))

            async def changed(config: object = config) -> bool:
                return (await reloader.reload(config)).outcome is Outcome.APPLIED

            await eventually_async(changed, 30, f"reload {number}")
            applied += 1
    return applied
