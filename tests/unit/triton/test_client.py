"""One client, typed answers, one kind of error."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from llmservice.repository.render import Role
from llmservice.triton.client import TritonClient
from llmservice.triton.errors import ErrorCode, TritonError
from llmservice.triton.results import BatchStatistics, ModelState, Total
from tests.unit.grpc_server import serve
from tests.unit.repository.cases import CASES
from tests.unit.triton.fake_triton import FakeTriton

pytestmark = pytest.mark.unit

GATE = CASES[0].render().config(Role.GATE)


async def test_a_load_sends_the_whole_configuration(client: TritonClient, triton: FakeTriton) -> None:
    await client.load("chat", CASES[0].render().load_json(Role.GATE))
    assert triton.models["chat"].config.dynamic_batching.max_queue_delay_microseconds == 5000
    assert await client.ready("chat")


async def test_an_unloaded_model_is_not_ready_and_no_error(client: TritonClient, triton: FakeTriton) -> None:
    triton.put(GATE)
    await client.unload("chat")
    assert not await client.ready("chat")


async def test_the_configuration_comes_as_a_message(client: TritonClient, triton: FakeTriton) -> None:
    triton.put(GATE)
    assert (await client.model_config("chat")).max_batch_size == GATE.max_batch_size


async def test_statistics_are_typed(client: TritonClient, triton: FakeTriton) -> None:
    triton.put(GATE).requests = 7
    statistics = await client.statistics("chat")
    assert statistics.success == Total(count=7)
    assert statistics.batches == (BatchStatistics(batch_size=4, compute_infer=Total(ns=12)),)


async def test_the_index_tells_loaded_models_from_others(client: TritonClient, triton: FakeTriton) -> None:
    triton.put(GATE)
    assert await client.repository_index() == (ModelState("chat", "1", "READY"), ModelState("never-loaded"))


async def test_the_server_tells_its_version_and_readiness(client: TritonClient) -> None:
    assert await client.server_version() == "2.51.0"
    assert await client.server_ready()


async def test_tritons_own_message_reaches_the_reader(client: TritonClient, triton: FakeTriton) -> None:
    triton.refuse_load = "load failed for model 'chat': version 1 is at UNAVAILABLE state"
    with pytest.raises(TritonError, match=r"load model chat at 127.*: load failed for model 'chat'") as caught:
        await client.load("chat", "{}")
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT
    assert caught.value.message == triton.refuse_load


async def test_without_the_token_control_is_refused_and_health_is_not(address: str, triton: FakeTriton) -> None:
    triton.put(GATE)
    async with TritonClient(address) as stranger:
        assert await stranger.ready("chat")
        with pytest.raises(TritonError, match="This protocol is restricted"):
            await stranger.model_config("chat")


async def test_statistics_of_a_model_that_is_not_loaded_are_not_found(client: TritonClient) -> None:
    with pytest.raises(TritonError) as caught:
        await client.statistics("chat")
    assert caught.value.code is ErrorCode.NOT_FOUND


async def test_an_absent_server_is_unavailable() -> None:
    async with serve(FakeTriton()) as address:
        pass
    async with TritonClient(address) as client:
        with pytest.raises(TritonError) as caught:
            await client.ready("chat")
    assert caught.value.code is ErrorCode.UNAVAILABLE


async def test_a_server_that_does_not_answer_meets_the_deadline() -> None:
    class Silent(FakeTriton):
        async def ServerReady(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
            await asyncio.Event().wait()

    async with serve(Silent()) as address, TritonClient(address, read_seconds=0.05) as client:
        with pytest.raises(TritonError) as caught:
            await client.server_ready()
    assert caught.value.code is ErrorCode.DEADLINE_EXCEEDED


@pytest.mark.parametrize(
    ("status", "code"),
    [("StatusCode.NOT_FOUND", ErrorCode.NOT_FOUND), ("StatusCode.DATA_LOSS", ErrorCode.UNKNOWN), (None, "UNKNOWN")],
)
def test_a_status_that_triton_does_not_use_is_unknown(status: str | None, code: str) -> None:
    assert ErrorCode.parse(status) == code
