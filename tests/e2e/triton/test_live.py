"""Live changes against a real tritonserver, with stand-ins for gate and engine (see standin.py)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
from tritonclient import grpc as messages  # type: ignore[import-untyped]
from tritonclient.grpc.aio import InferenceServerClient  # type: ignore[import-untyped]

from llmservice.api.knobs import Knobs
from llmservice.local.tritonserver import TritonServer
from llmservice.repository.gate_config import GATE_INSTANCES
from llmservice.repository.render import Role
from llmservice.signals.scrape import Scraper
from llmservice.triton.client import TritonClient
from llmservice.triton.errors import ErrorCode, TritonError
from llmservice.triton.live import GateReloader, LiveChangeError, Outcome, set_engine_instances
from tests.e2e.triton.standin import Starts, code_folder, write
from tests.unit.repository.cases import CASES, Case

pytestmark = pytest.mark.e2e

TOKEN = "e2e-token"
GUARD = "--grpc-restricted-protocol=model-repository,model-config,statistics:triton-llm-token=" + TOKEN
RENDERED = CASES[0].render()
ENGINE = RENDERED.config(Role.ENGINE)


class Place:
    """The folders of one server."""

    def __init__(self, root: Path) -> None:
        self.repository = root / "repository"
        self.starts = Starts(root / "starts")
        self.release = root / "release"
        write(RENDERED, self.repository, code_folder(root / "code"))

    def server(self) -> TritonServer:
        return TritonServer(
            self.repository,
            load_models=["chat", "chat-engine"],
            arguments=[GUARD],
            env={"STARTS": str(self.starts.file), "RELEASE": str(self.release)},
        )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def server(place: Place) -> Iterator[TritonServer]:
    with place.server() as server:
        yield server


@pytest.fixture
async def client(server: TritonServer) -> AsyncIterator[TritonClient]:
    async with TritonClient(server.grpc_address, TOKEN) as client:
        yield client


@pytest.fixture
async def reloader(server: TritonServer, client: TritonClient) -> AsyncIterator[GateReloader]:
    async with aiohttp.ClientSession() as session:

        async def old_gate_gone() -> bool:
            sample = await Scraper(session).read(server.metrics_url, "chat")
            return sample.gate_processes == GATE_INSTANCES

        yield GateReloader(client, old_gate_gone)


def gate(milliseconds: int) -> Any:
    knobs = Knobs(max_queue_delay=timedelta(milliseconds=milliseconds), slots=18)
    return Case("", knobs=knobs).render().config(Role.GATE)


async def ask(server: TritonServer, model: str, text: str = "") -> int:
    """Responses to one streamed request; raises what the stream raises."""
    if model.endswith("-engine"):
        tensor = messages.InferInput("control", [1], "BYTES")
        tensor.set_data_from_numpy(np.array([b"{}"], dtype=object))
    else:
        tensor = messages.InferInput("text_input", [1, 1], "BYTES")
        tensor.set_data_from_numpy(np.array([[text.encode()]], dtype=object))

    async def requests() -> AsyncIterator[dict[str, Any]]:
        yield {"model_name": model, "inputs": [tensor], "enable_empty_final_response": True}

    # Read to the end of the stream: a cancel that meets the last response can make Triton keep the model for ever.
    count = 0
    async with InferenceServerClient(server.grpc_address) as client:
        async for _, error in client.stream_infer(requests()):
            assert error is None, error
            count += 1
    return count


async def eventually(question: Callable[[], Awaitable[bool]], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not await question():
        assert time.monotonic() < deadline, "it never became true"
        await asyncio.sleep(0.05)


async def test_an_engine_count_goes_up_and_down_in_place_and_statistics_keep_counting(
    server: TritonServer, client: TritonClient, place: Place
) -> None:
    await ask(server, "chat-engine")
    for count, starts in ((2, 2), (3, 3), (1, 3)):
        change = await set_engine_instances(client, ENGINE, count)
        assert change.outcome is Outcome.APPLIED
        assert place.starts.of("chat-engine") == starts, "an instance that ran was started again"
        assert (await client.statistics("chat-engine")).success.count == 1
    assert (await set_engine_instances(client, ENGINE, 1)).outcome is Outcome.UNCHANGED


async def test_byte_code_in_the_version_folder_would_turn_a_count_into_a_reload(place: Place) -> None:
    for blocker in (place.repository / "chat-engine").rglob("__pycache__"):
        blocker.unlink()
    with place.server() as server:
        assert (place.repository / "chat-engine/1/__pycache__").is_dir(), "the stub wrote no byte code"
        async with TritonClient(server.grpc_address, TOKEN) as client:
            await set_engine_instances(client, ENGINE, 2)
        assert place.starts.of("chat-engine") == 3, "one instance at start, two more by a full reload"


async def test_a_delay_reloads_the_gate_alone(
    server: TritonServer, client: TritonClient, reloader: GateReloader, place: Place
) -> None:
    change = await reloader.reload(gate(25))
    assert change.outcome is Outcome.APPLIED
    assert (await client.model_config("chat")).dynamic_batching.max_queue_delay_microseconds == 25_000
    assert (place.starts.of("chat"), place.starts.of("chat-engine")) == (2 * GATE_INSTANCES, 1)
    assert (await reloader.reload(gate(25))).outcome is Outcome.UNCHANGED
    assert await ask(server, "chat", "hello") == 1


async def test_the_next_reload_waits_until_the_old_gates_streams_end(
    server: TritonServer, reloader: GateReloader, place: Place
) -> None:
    stream = asyncio.create_task(ask(server, "chat", "hold"))

    async def held() -> bool:
        async with TritonClient(server.grpc_address, TOKEN) as client:
            return (await client.statistics("chat")).execution_count > 0

    await eventually(held)
    assert (await reloader.reload(gate(10))).outcome is Outcome.APPLIED
    assert (await reloader.reload(gate(20))).outcome is Outcome.DEFERRED
    place.release.touch()
    assert await stream == 1

    async def applied() -> bool:
        return (await reloader.reload(gate(20))).outcome is Outcome.APPLIED

    await eventually(applied)


async def test_a_configuration_that_triton_refuses_leaves_the_old_gate_serving(
    server: TritonServer, client: TritonClient, reloader: GateReloader
) -> None:
    wrong = gate(25)
    wrong.dynamic_batching.priority_levels = 2
    wrong.dynamic_batching.default_priority_level = 3
    with pytest.raises(LiveChangeError) as caught:
        await reloader.reload(wrong)
    assert caught.value.still_serving
    assert (await client.model_config("chat")).dynamic_batching.max_queue_delay_microseconds == 5_000
    assert await ask(server, "chat", "hello") == 1
    assert (await reloader.reload(gate(25))).outcome is Outcome.APPLIED


async def test_control_needs_the_token_and_health_does_not(server: TritonServer) -> None:
    async with TritonClient(server.grpc_address) as stranger:
        assert await stranger.ready("chat")
        for call in (
            stranger.load("chat"),
            stranger.unload("chat"),
            stranger.model_config("chat"),
            stranger.statistics("chat"),
            stranger.repository_index(),
        ):
            with pytest.raises(TritonError, match="restricted"):
                await call
        assert await stranger.ready("chat")


async def test_an_unknown_model_is_not_ready_and_its_load_says_why(client: TritonClient) -> None:
    assert not await client.ready("nobody")
    with pytest.raises(TritonError, match="failed to load 'nobody'") as caught:
        await client.load("nobody")
    assert caught.value.code is ErrorCode.INTERNAL
    assert {state.name for state in await client.repository_index() if state.ready} == {"chat", "chat-engine"}
