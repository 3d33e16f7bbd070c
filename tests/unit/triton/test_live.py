"""Live changes: what is sent, what is refused, what is believed."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from llmservice.api.knobs import Knobs
from llmservice.repository.render import Role
from llmservice.triton.client import TritonClient
from llmservice.triton.comparison import differing_fields, instances
from llmservice.triton.live import GateReloader, LiveChangeError, Outcome, set_engine_instances, set_slots
from tests.unit.grpc_server import serve
from tests.unit.repository.cases import CASES, Case
from tests.unit.triton.fake_triton import FakeTriton, filled_in

pytestmark = pytest.mark.unit

ENGINE = CASES[0].render().config(Role.ENGINE)


def gate(milliseconds: int) -> Any:
    delay = timedelta(milliseconds=milliseconds)
    return Case("", knobs=Knobs(max_queue_delay=delay, slots=18)).render().config(Role.GATE)


async def gone() -> bool:
    return True


async def still_there() -> bool:
    return False


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_triton_fills_in_is_no_difference(case: Case) -> None:
    rendered = case.render()
    for model in rendered.models:
        config = rendered.config(model.role)
        assert differing_fields(config, filled_in(config)) == ()


def test_a_difference_is_named() -> None:
    assert differing_fields(gate(0), filled_in(gate(5))) == ("dynamic_batching",)


async def test_a_new_delay_reloads_the_gate(client: TritonClient, triton: FakeTriton) -> None:
    triton.put(gate(5))
    change = await GateReloader(client, gone).reload(gate(20))
    assert (change.outcome, change.reason) == (Outcome.APPLIED, "changed dynamic_batching")
    assert triton.models["chat"].config.dynamic_batching.max_queue_delay_microseconds == 20_000


async def test_a_delay_of_zero_is_a_change_too(client: TritonClient, triton: FakeTriton) -> None:
    triton.put(gate(5))
    assert (await GateReloader(client, gone).reload(gate(0))).outcome is Outcome.APPLIED


async def test_the_same_gate_again_sends_nothing(client: TritonClient, triton: FakeTriton) -> None:
    triton.put(gate(5))
    assert (await GateReloader(client, gone).reload(gate(5))).outcome is Outcome.UNCHANGED
    assert triton.load_calls == []


async def test_while_an_old_gate_serves_the_next_reload_waits(client: TritonClient, triton: FakeTriton) -> None:
    triton.put(gate(5))
    assert (await GateReloader(client, still_there).reload(gate(20))).outcome is Outcome.DEFERRED
    assert triton.load_calls == []


async def test_reloads_of_one_gate_never_overlap(client: TritonClient, triton: FakeTriton) -> None:
    triton.put(gate(5))
    asked = 0

    async def count_questions() -> bool:
        nonlocal asked
        asked += 1
        assert len(triton.load_calls) == asked - 1
        return True

    reloader = GateReloader(client, count_questions)
    await asyncio.gather(*(reloader.reload(gate(delay)) for delay in (10, 20, 30)))
    assert len(triton.load_calls) == 3


async def test_the_gates_count_never_changes_in_place(client: TritonClient, triton: FakeTriton) -> None:
    triton.put(gate(5))
    other = gate(5)
    other.instance_group[0].count += 1
    with pytest.raises(LiveChangeError, match="the gate's count is fixed"):
        await GateReloader(client, gone).reload(other)
    assert triton.load_calls == []


async def test_a_refused_load_leaves_the_old_gate_and_says_so(client: TritonClient, triton: FakeTriton) -> None:
    triton.put(gate(5))
    triton.refuse_load = "no space"
    with pytest.raises(LiveChangeError, match="no space; it serves as before") as caught:
        await GateReloader(client, gone).reload(gate(20))
    assert caught.value.still_serving


async def test_a_load_that_triton_took_but_did_not_do_is_no_success(client: TritonClient, triton: FakeTriton) -> None:
    triton.put(gate(5))
    triton.ignore_load = True
    with pytest.raises(LiveChangeError, match="dynamic_batching are not as sent"):
        await GateReloader(client, gone).reload(gate(20))


async def test_a_gate_that_is_not_ready_afterwards_is_no_success(client: TritonClient, triton: FakeTriton) -> None:
    triton.put(gate(5))
    triton.unready_after_load = True
    with pytest.raises(LiveChangeError, match="not ready after the load"):
        await GateReloader(client, gone).reload(gate(20))


async def test_an_engine_count_changes_in_place(client: TritonClient, triton: FakeTriton) -> None:
    triton.put(ENGINE).requests = 9
    change = await set_engine_instances(client, ENGINE, 2)
    assert change.outcome is Outcome.APPLIED
    assert instances(triton.models["chat-engine"].config) == 2
    assert triton.models["chat-engine"].loads == 1


async def test_the_count_that_runs_already_sends_nothing(client: TritonClient, triton: FakeTriton) -> None:
    triton.put(ENGINE)
    assert (await set_engine_instances(client, ENGINE, 1)).outcome is Outcome.UNCHANGED
    assert triton.load_calls == []


async def test_an_engine_that_differs_otherwise_is_never_loaded(client: TritonClient, triton: FakeTriton) -> None:
    triton.put(ENGINE)
    other = CASES[0].render().config(Role.ENGINE)
    other.parameters["dtype"].string_value = "float16"
    with pytest.raises(LiveChangeError, match="parameters differ too, which would load the weights again"):
        await set_engine_instances(client, other, 2)
    assert triton.load_calls == []


async def test_statistics_that_begin_again_betray_a_reload(client: TritonClient, triton: FakeTriton) -> None:
    triton.put(ENGINE).requests = 9
    triton.always_reload = True
    with pytest.raises(LiveChangeError, match="reloaded the model instead") as caught:
        await set_engine_instances(client, ENGINE, 2)
    assert not caught.value.still_serving


def with_slots(count: int) -> Any:
    config = CASES[0].render().config(Role.ENGINE)
    config.parameters["slots"].string_value = str(count)
    return config


async def test_slots_are_told_to_the_engine_and_nothing_is_loaded(client: TritonClient, triton: FakeTriton) -> None:
    triton.slots = {"1-aa": 18, "2-bb": 18}
    change = await set_slots(client, with_slots(24))
    assert (change.outcome, change.reason) == (Outcome.APPLIED, "slots 18 → 24")
    assert triton.slots == {"1-aa": 24, "2-bb": 24}
    assert (await set_slots(client, with_slots(24))).outcome is Outcome.UNCHANGED
    assert triton.load_calls == []


@pytest.mark.parametrize(
    ("slots", "says"), [({"1-aa": 18}, "24 slots were set, but 1-aa has 18"), ({}, "but no instance answers")]
)
async def test_slots_that_were_not_taken_are_no_success(
    client: TritonClient, triton: FakeTriton, slots: dict[str, int], says: str
) -> None:
    triton.slots, triton.deaf = slots, True
    with pytest.raises(LiveChangeError, match=says):
        await set_slots(client, with_slots(24))


async def test_a_client_without_the_token_sets_no_slots(triton: FakeTriton) -> None:
    async with serve(triton) as address, TritonClient(address, "another") as client:
        with pytest.raises(LiveChangeError, match="the token is not this server's"):
            await set_slots(client, with_slots(24))
    assert triton.slots == {"1-aa": 18}


async def test_an_engine_with_other_slots_than_it_was_loaded_with_still_changes_its_count_in_place(
    client: TritonClient, triton: FakeTriton
) -> None:
    triton.put(ENGINE)
    change = await set_engine_instances(client, with_slots(24), 2)
    assert change.outcome is Outcome.APPLIED
    assert triton.models[ENGINE.name].loads == 1, "in place: the weights were not loaded again"
