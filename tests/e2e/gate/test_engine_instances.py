"""Engine instances come and go in place under load; the streams belong to the gate and lose nothing."""

from __future__ import annotations

import asyncio

import pytest

from llmservice.repository.render import Role
from llmservice.triton.client import TritonClient
from llmservice.triton.live import LiveChangeError, Outcome, set_engine_instances, set_slots
from tests.serving.delay_changes import change_delay
from tests.serving.eventually import PATIENCE_S, eventually
from tests.serving.paced_service import Pace, paced_service
from tests.serving.streams import stream_many

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("mode", ["Continuous", "Dynamic", "Static"])
async def test_an_instance_is_added_and_removed_under_load_without_loss(mode: str) -> None:
    with paced_service(batching={"mode": mode}) as service:
        done = asyncio.Event()
        running = asyncio.create_task(stream_many(service.server.http_url, 40, 200, 24, until=done.is_set))
        (first,) = service.processes("chat-engine")
        config = service.config(Role.ENGINE)
        async with TritonClient(service.server.grpc_address) as client:
            for _ in range(2):
                assert (await set_engine_instances(client, config, 2)).outcome is Outcome.APPLIED
                await eventually(lambda: service.total_slots() == 36, PATIENCE_S, "the slots of two instances")
                assert first in service.processes("chat-engine"), "in place: the first one lives on"
                await eventually(lambda: service.held_slots() > 18, PATIENCE_S, "requests in both instances")

                assert (await set_engine_instances(client, config, 1)).outcome is Outcome.APPLIED
                assert service.total_slots() == 18
                (first,) = service.processes("chat-engine")
        done.set()
        load = await running

        assert load.whole, load.errors
        assert service.free_slots() == 18
        assert service.server.running()
        assert service.metric("llm_gate_missing_engines") == 0


async def test_an_instance_that_finds_no_memory_changes_nothing_and_nothing_is_lost() -> None:
    with paced_service(Pace(most_instances=1), {"mode": "Dynamic"}) as service:
        done = asyncio.Event()
        running = asyncio.create_task(stream_many(service.server.http_url, 40, 200, 24, until=done.is_set))
        first = service.processes("chat-engine")
        async with TritonClient(service.server.grpc_address) as client:
            for _ in range(2):
                with pytest.raises(LiveChangeError, match=r"(?s)took all of the memory.*it serves as before"):
                    await set_engine_instances(client, service.config(Role.ENGINE), 2)
            change = await set_engine_instances(client, service.config(Role.ENGINE), 1)
            assert change.outcome is Outcome.UNCHANGED
        assert service.processes("chat-engine") == first
        assert service.total_slots() == 18
        done.set()
        load = await running
        assert load.whole, load.errors
        assert service.metric("llm_gate_missing_engines") == 0


async def test_slots_change_under_load_and_later_instances_and_gates_have_them_too() -> None:
    with paced_service() as service:
        done = asyncio.Event()
        running = asyncio.create_task(stream_many(service.server.http_url, 40, 200, 24, until=done.is_set))
        before = service.processes("chat-engine")
        async with TritonClient(service.server.grpc_address) as client:
            for count in (30, 6, 24):
                change = await set_slots(client, service.config(Role.ENGINE, slots=count))
                assert change.outcome is Outcome.APPLIED
                await eventually(
                    lambda: service.metric("llm_gate_slots") == service.total_slots(), PATIENCE_S, "the gauge"
                )
                await eventually(lambda: service.held_slots() == service.total_slots(), PATIENCE_S, "as many in use")
                assert service.total_slots() == count
            assert service.processes("chat-engine") == before, "nothing was loaded"

            await set_engine_instances(client, service.config(Role.ENGINE, slots=24), 2)
            assert before < service.processes("chat-engine"), "in place"
            await eventually(lambda: service.total_slots() == 48, PATIENCE_S, "the new instance's slots")
            assert len(await change_delay(service, 1)) == 1
            await eventually(lambda: service.held_slots() > 24, PATIENCE_S, "both in use")
        done.set()
        load = await running

        assert load.whole, load.errors
        assert service.free_slots() == 48
