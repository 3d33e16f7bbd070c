"""How each batching mode forms batches, seen from the engine's step counters."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from tests.serving.eventually import PATIENCE_S, eventually
from tests.serving.paced_service import Pace, PacedService, paced_service
from tests.serving.streams import GrpcStream, stream_many

pytestmark = pytest.mark.e2e

TOKENS = 5
LONG = 500
DELAY = timedelta(seconds=4)
"""Long enough for three requests to come on a busy machine."""


async def steps(service: PacedService, total: int) -> dict[int, float]:
    """Steps by batch size, when there are `total` of tokens."""
    await eventually(
        lambda: service.metric("llm_engine_tokens_total", kind="generated") == total, PATIENCE_S, "every token counted"
    )
    sizes = range(1, service.pace.max_sequences + 1)
    by_size = {size: service.metric("llm_engine_steps_total", batch_size=str(size)) for size in sizes}
    return {size: count for size, count in by_size.items() if count}


@pytest.mark.parametrize("mode", ["Dynamic", "Static"])
async def test_the_gate_forms_a_batch_and_the_engine_runs_it_to_completion(mode: str) -> None:
    delay = timedelta(seconds=30)  # full batches leave at once
    with paced_service(Pace(max_sequences=8), {"mode": mode}, max_queue_delay=delay) as service:
        load = await stream_many(service.server.http_url, streams=16, requests=16, max_tokens=TOKENS)

        assert load.whole, load.errors
        assert await steps(service, 16 * TOKENS) == {8: 2 * TOKENS}
        assert service.free_slots() == service.total_slots()


async def test_a_batch_that_is_not_full_leaves_after_the_delay() -> None:
    with paced_service(Pace(max_sequences=8), {"mode": "Dynamic"}, max_queue_delay=DELAY) as service:
        load = await stream_many(service.server.http_url, streams=3, requests=3, max_tokens=TOKENS)

        assert load.whole, load.errors
        assert max(load.first_tokens) > DELAY.total_seconds() * 0.9, "the first of them waited for the others"
        assert await steps(service, 3 * TOKENS) == {3: TOKENS}


async def test_a_cancelled_member_shrinks_its_batch() -> None:
    with paced_service(Pace(max_sequences=4), {"mode": "Dynamic"}, max_queue_delay=timedelta(seconds=30)) as service:
        streams = [GrpcStream(service.server.grpc_address, 1_000_000) for _ in range(4)]
        for stream in streams:
            await asyncio.to_thread(stream.text)

        streams[0].cancel()

        await eventually(lambda: service.metric("llm_engine_running_sequences") == 3, PATIENCE_S, "a batch of three")
        for stream in streams[1:]:
            stream.cancel()
        await eventually(lambda: service.held_slots() == 0, PATIENCE_S, "every slot free")


async def test_none_computes_one_request_at_a_time() -> None:
    with paced_service(batching={"mode": "None"}, slots=3) as service:
        load = await stream_many(service.server.http_url, streams=8, requests=8, max_tokens=TOKENS)

        assert load.whole, load.errors
        assert await steps(service, 8 * TOKENS) == {1: 8 * TOKENS}


async def test_continuous_joins_requests_to_a_running_batch() -> None:
    with paced_service() as service:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(stream_many(service.server.http_url, 1, 1, LONG))
            await eventually(lambda: service.held_slots() == 1, PATIENCE_S, "the first request in the engine")
            second = group.create_task(stream_many(service.server.http_url, 1, 1, TOKENS))

        assert first.result().whole
        assert second.result().seconds < first.result().seconds / 2
        assert await steps(service, LONG + TOKENS) == {1: LONG - TOKENS, 2: TOKENS}
