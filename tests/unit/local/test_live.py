"""Live knobs on this host: the operator's calls, told in words, and never on top of an older gate."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from llmservice.local import live
from llmservice.local.live import LiveKnobs
from llmservice.repository.gate_config import GATE_INSTANCES
from llmservice.repository.render import Role
from tests.unit.grpc_server import serve
from tests.unit.local.manifests import intent
from tests.unit.triton.fake_triton import TOKEN, FakeTriton

pytestmark = pytest.mark.unit

TWO_INSTANCES = {"mode": "Off", "bounds": {"engineInstances": {"min": 2, "max": 2}}}


@pytest.fixture
def triton() -> FakeTriton:
    fake = FakeTriton()
    for role in (Role.GATE, Role.ENGINE):
        fake.put(intent().repository.config(role))
    fake.slots = {"1-aa": configured_slots()}
    return fake


def configured_slots() -> int:
    return int(intent().repository.config(Role.ENGINE).parameters["slots"].string_value)


@pytest.fixture
async def address(triton: FakeTriton) -> AsyncIterator[str]:
    async with serve(triton) as address:
        yield address


async def one_gate() -> int:
    return GATE_INSTANCES


async def two_gates() -> int:
    return 2 * GATE_INSTANCES


async def test_a_delay_reloads_the_gate_and_leaves_the_engine(triton: FakeTriton, address: str) -> None:
    told: list[str] = []
    wanted = intent(batching={"maxQueueDelay": "40ms"}).repository
    assert await LiveKnobs(address, TOKEN, one_gate, told.append).bring(wanted)
    assert triton.load_calls == ["chat"]
    assert triton.models["chat"].config.dynamic_batching.max_queue_delay_microseconds == 40_000
    assert told[0].startswith("applied in ")


async def test_engine_instances_change_in_place(triton: FakeTriton, address: str) -> None:
    assert await LiveKnobs(address, TOKEN, one_gate, print).bring(intent(tuning=TWO_INSTANCES).repository)
    assert triton.load_calls == ["chat-engine"]


async def test_slots_change_without_a_load(triton: FakeTriton, address: str) -> None:
    told: list[str] = []
    triton.slots = {"1-aa": 3}
    assert await LiveKnobs(address, TOKEN, one_gate, told.append).bring(intent().repository)
    assert triton.load_calls == []
    assert triton.slots == {"1-aa": configured_slots()}
    assert told[0].startswith("applied in ")


async def test_what_runs_already_is_left_alone(triton: FakeTriton, address: str) -> None:
    told: list[str] = []
    assert await LiveKnobs(address, TOKEN, two_gates, told.append).bring(intent().repository)
    assert (triton.load_calls, told) == ([], [])


async def test_a_later_edit_takes_the_place_of_one_that_waits(
    triton: FakeTriton, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "RETRY_SECONDS", 0.0)
    told: list[str] = []
    wanted = intent(batching={"maxQueueDelay": "40ms"}).repository
    brought = await LiveKnobs(address, TOKEN, two_gates, told.append).bring(wanted, superseded=lambda: True)
    assert (brought, triton.load_calls) == (False, [])
    assert told == ["waiting: an older gate still serves its streams"]


async def test_an_older_gate_is_not_waited_for_without_end(
    triton: FakeTriton, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "RETRY_SECONDS", 0.0)
    now = iter([0.0, 1.0, live.PATIENCE_SECONDS])
    knobs = LiveKnobs(address, TOKEN, two_gates, lambda said: None, clock=lambda: next(now))
    assert await knobs.bring(intent(batching={"maxQueueDelay": "40ms"}).repository)
    assert triton.load_calls == ["chat"]
