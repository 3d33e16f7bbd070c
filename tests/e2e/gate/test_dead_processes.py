"""Model processes that are killed in the middle of load: slots come back, errors are prompt and clear, the server ends.

Triton 2.51 never starts a dead Python model process again, so the survivors end the server, and what runs the server
starts it again.
"""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from llmservice.repository.render import Role
from llmservice.triton.client import TritonClient
from llmservice.triton.live import set_engine_instances
from tests.serving.eventually import PATIENCE_S, eventually
from tests.serving.paced_service import PacedService, paced_service
from tests.serving.streams import Load, post, stream_many

pytestmark = pytest.mark.e2e


async def under_load(service: PacedService, max_tokens: int = 1_000_000) -> asyncio.Task[Load]:
    """Starts 32 streams, endless ones unless told, and returns when they fill the engine."""
    running = asyncio.create_task(stream_many(service.server.http_url, 32, 64, max_tokens))
    await eventually(lambda: service.free_slots() == 0, PATIENCE_S, "every slot held")
    return running


async def test_a_killed_engine_fails_its_requests_at_once_and_ends_the_server() -> None:
    with paced_service() as service:
        running = await under_load(service)
        (engine,) = service.processes("chat-engine")

        os.kill(engine, signal.SIGKILL)

        load = await asyncio.wait_for(running, PATIENCE_S)
        inside = [error for error in load.errors if "ended while it computed this request; send it again" in error]
        assert len(inside) == 18
        assert len(load.errors) == load.failed
        await eventually(lambda: not service.server.running(), PATIENCE_S, "the server's end")
        assert "ending tritonserver: no engine instance is left" in service.server.log_tail()


async def test_a_killed_engine_of_two_leaves_the_other_serving() -> None:
    with paced_service() as service:
        (first,) = service.processes("chat-engine")
        async with TritonClient(service.server.grpc_address) as client:
            await set_engine_instances(client, service.config(Role.ENGINE), 2)
        await eventually(lambda: service.total_slots() == 36, PATIENCE_S, "the slots of two instances")
        running = asyncio.create_task(stream_many(service.server.http_url, 40, 200, 50))
        await eventually(lambda: service.held_slots() > 20, PATIENCE_S, "requests in both instances")

        os.kill(first, signal.SIGKILL)
        load = await running

        assert 0 < load.failed <= 18, load.errors
        assert all("send it again" in error for error in load.errors)
        assert not load.shortened
        assert not load.disordered
        assert service.server.running()
        assert service.metric("llm_gate_missing_engines") > 0


async def test_a_killed_gate_gives_its_slots_back_and_ends_the_server() -> None:
    with paced_service() as service:
        running = await under_load(service)
        (gate,) = service.processes("chat")

        os.kill(gate, signal.SIGKILL)

        load = await asyncio.wait_for(running, PATIENCE_S)
        assert not load.shortened, "a stream that breaks is told from one that ended"
        await eventually(lambda: not service.server.running(), PATIENCE_S, "the server's end")
        # All 18 are back, unless the engine ended in good order before the kill and took its table with it.
        assert service.free_slots() == service.total_slots()
        assert service.total_slots() in (0, 18)
        assert "ending tritonserver: a gate process" in service.server.log_tail()


async def test_an_engine_whose_step_fails_says_so_to_every_client() -> None:
    with paced_service() as service:
        running = await under_load(service, max_tokens=100)

        _, answer = await asyncio.to_thread(post, service.server.http_url, "generate", {"text_input": "crash"})

        load = await running
        assert "the engine failed: RuntimeError: the device is lost" in answer["error"]
        assert any("the device is lost" in error for error in load.errors)
        await eventually(lambda: not service.server.running(), PATIENCE_S, "the server's end")
