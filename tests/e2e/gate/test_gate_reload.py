"""A new queue delay is a reload of the gate by gRPC: nothing fails, nothing is cut short, no slot is lost."""

from __future__ import annotations

import asyncio
import shutil

import pytest

from llmservice.repository.gate_config import GATE_INSTANCES
from tests.serving.delay_changes import change_delay
from tests.serving.eventually import PATIENCE_S, eventually
from tests.serving.paced_service import NAME, paced_service
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

        assert len(reloads) == RELOADS
        assert load.requests >= REQUESTS
        assert load.whole, load.errors
        assert across.whole, across.errors
        await eventually(lambda: service.free_slots() == service.total_slots() == 18, PATIENCE_S, "every slot back")
        await eventually(lambda: len(service.processes(NAME)) == GATE_INSTANCES, PATIENCE_S, "the last old gate gone")
        assert "Signal (15)" not in service.server.log_tail(1000)


async def test_a_live_stream_stays_with_the_old_gate_until_its_end() -> None:
    with paced_service() as service, GrpcStream(service.server.grpc_address, max_tokens=100_000) as stream:
        assert await asyncio.to_thread(stream.text) == "t0 "
        before = service.processes(NAME)

        assert len(await change_delay(service, 1)) == 1

        assert before < service.processes(NAME), "old and new gate live side by side"
        received = [await asyncio.to_thread(stream.text) for _ in range(100)]
        assert received == [f"t{number} " for number in range(1, 101)]
        stream.cancel()
        await eventually(lambda: not before & service.processes(NAME), PATIENCE_S, "the old gate gone")


async def test_an_engine_whose_run_directory_was_deleted_serves_the_next_gate() -> None:
    with paced_service() as service:
        shutil.rmtree(service.place.folder)
        await eventually(lambda: bool(service.place.instances()), PATIENCE_S, "the engine's socket again")

        assert len(await change_delay(service, 1)) == 1

        load = await stream_many(service.server.http_url, 4, 8, 8)
        assert load.whole, load.errors
        assert service.free_slots() == service.total_slots() == 18
