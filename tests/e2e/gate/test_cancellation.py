"""A client that leaves is noticed, and its slot is free within moments, not at the end of its answer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import aiohttp
import pytest

from tests.serving.eventually import PATIENCE_S, eventually
from tests.serving.paced_service import NAME, PacedService, paced_service
from tests.serving.streams import GrpcStream

pytestmark = pytest.mark.e2e

LONG = 1_000_000
"""Tokens of a stream that no test sees end."""


@pytest.fixture(scope="module")
def service() -> Iterator[PacedService]:
    with paced_service() as running:
        yield running


async def test_an_http_client_that_hangs_up_frees_its_slot(service: PacedService) -> None:
    body = {"text_input": "hello", "stream": True, "max_tokens": LONG}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{service.server.http_url}/v2/models/{NAME}/generate_stream", json=body) as response,
    ):
        await response.content.readline()
        assert service.held_slots() == 1

    await eventually(lambda: service.held_slots() == 0, PATIENCE_S, "the slot of a client that hung up")


async def test_a_grpc_stream_that_is_cancelled_frees_its_slot(service: PacedService) -> None:
    with GrpcStream(service.server.grpc_address, LONG) as stream:
        stream.text()
        assert service.held_slots() == 1

    await eventually(lambda: service.held_slots() == 0, PATIENCE_S, "the slot of a cancelled stream")


async def test_a_request_cancelled_before_it_has_a_slot_never_reaches_the_engine() -> None:
    with paced_service() as service:
        slots = service.total_slots()
        with contextlib.ExitStack() as holders:
            for _ in range(slots):
                holders.enter_context(GrpcStream(service.server.grpc_address, LONG))
            await eventually(lambda: service.free_slots() == 0, PATIENCE_S, "every slot held")
            with GrpcStream(service.server.grpc_address, LONG):
                held = "llm_gate_held_requests"
                await eventually(lambda: service.metric(held) == 1, PATIENCE_S, "the late request held in the gate")

            await eventually(
                lambda: service.metric("llm_gate_requests_total", outcome="cancelled") == 1,
                PATIENCE_S,
                "the late request cancelled",
            )
            assert service.metric("llm_gate_queue_seconds_count") == slots, "the late one was never admitted"
            assert service.free_slots() == 0

        await eventually(lambda: service.held_slots() == 0, PATIENCE_S, "every slot free")
