"""What the gate does with requests that wait, over real sockets and slots in one process."""

from __future__ import annotations

import time
from typing import Any

import pytest

from llmgate.admission import LOOK_SECONDS
from llmgate.client import Fault
from llmgate.gate import LOOKS_PER_SECOND
from llmgate.levels import Levels, Limit
from llmserving.engine import Request
from llmserving.parameters import Mode
from tests.serving.clients import RecordingClient, prompt
from tests.serving.stage import Stage, eventually

pytestmark = pytest.mark.unit

TWO = Levels((Limit(), Limit()), 2)


def admit(gate: Any, number: int = 1, **asked: Any) -> list[RecordingClient]:
    clients = [RecordingClient() for _ in range(number)]
    gate.admit([(prompt(**asked), client) for client in clients])
    return clients


def taken(stage: Stage) -> list[Request]:
    """What reached the engine, in order."""
    return list(stage.engines[0].taken)


def finish(stage: Stage, *groups: list[RecordingClient]) -> None:
    stage.go.set()
    for client in [client for group in groups for client in group]:
        client.wait()


def test_admit_does_not_wait_for_a_slot(stage: Stage) -> None:
    stage.engine(slots=1)
    gate = stage.gate()
    clients = admit(gate, 3)
    assert stage.server.slots.held() == 1
    finish(stage, clients)
    assert all(client.text == "t0 t1 t2 " for client in clients)


def test_a_higher_level_goes_first_and_the_engine_is_told_the_level(stage: Stage) -> None:
    stage.engine(slots=1, max_sequences=1)
    gate = stage.gate(levels=TWO, max_sequences=1)
    first, low, high = admit(gate, level=1), admit(gate, 2, level=2), admit(gate, level=1)
    finish(stage, first, low, high)
    assert [request.priority for request in taken(stage)] == [1, 1, 2, 2]


def test_what_is_kept_free_serves_a_higher_level_at_once(stage: Stage) -> None:
    stage.engine(slots=10, max_sequences=8)
    gate = stage.gate(levels=TWO, max_sequences=8)
    low = admit(gate, 20)
    assert stage.server.slots.held() == 7
    high = admit(gate, level=1)
    assert stage.server.slots.held() == 8
    finish(stage, low, high)


def test_a_level_that_is_none_is_told(stage: Stage) -> None:
    stage.engine()
    (client,) = admit(stage.gate(levels=TWO), level=3)
    assert client.error == (
        "priority_level: must be a level of this service, from 1 (the highest) to 2, not 3",
        Fault.INVALID_ARG,
    )


def test_without_levels_any_level_will_do(stage: Stage) -> None:
    stage.engine()
    clients = admit(stage.gate(), level=7)
    finish(stage, clients)
    assert clients[0].final is not None


def test_a_full_level_refuses_and_counts(stage: Stage) -> None:
    stage.engine(slots=1, max_sequences=1)
    gate = stage.gate(levels=Levels((Limit(), Limit(max_size=2)), 2), max_sequences=1)
    inside, low, high = admit(gate), admit(gate, 4), admit(gate, 3, level=1)

    refused = [client for client in low if client.ended.is_set()]
    assert [client.error for client in refused] == [
        ("Exceeds maximum queue size of priority level 2: 2 requests wait; try again later", Fault.UNAVAILABLE)
    ] * 2
    assert refused == low[2:], "who came first stays"
    assert stage.metrics.value("llm_gate_rejected_total", reason="full", level="2") == 2
    assert stage.metrics.value("llm_gate_requests_total", outcome="rejected") == 2
    eventually(lambda: stage.metrics.value("llm_gate_held_requests", level="1") == 3, "the level's depth")
    assert stage.metrics.value("llm_gate_held_requests", level="2") == 2
    finish(stage, inside, low[:2], high)


@pytest.mark.parametrize("asked", [{}, {"queue_timeout": 0.01}, {"deadline_ms": 10}])
def test_who_waited_too_long_is_refused_in_time_though_nothing_moves(stage: Stage, asked: dict[str, Any]) -> None:
    stage.engine(slots=1, max_sequences=1)
    levels = Levels((Limit(timeout=60 if asked else 0.01),))
    gate = stage.gate(levels=levels, max_sequences=1)
    inside, late = admit(gate), admit(gate, **asked)

    late[0].wait()

    assert late[0].error is not None
    assert "Request timeout expired: it waited" in late[0].error[0]
    assert stage.metrics.value("llm_gate_rejected_total", reason="timeout", level="1") == 1
    finish(stage, inside)
    assert len(taken(stage)) == 1


def test_a_client_may_not_lengthen_the_timeout(stage: Stage) -> None:
    stage.engine(slots=1, max_sequences=1)
    gate = stage.gate(levels=Levels((Limit(timeout=0.01),)), max_sequences=1)
    inside, late = admit(gate), admit(gate, queue_timeout=60)
    late[0].wait()
    assert late[0].error is not None
    finish(stage, inside)


def test_a_client_that_leaves_the_line_never_reaches_the_engine(stage: Stage) -> None:
    stage.engine(slots=1, max_sequences=1)
    gate = stage.gate(max_sequences=1)
    inside, gone, stays = admit(gate), admit(gate), admit(gate)
    gone[0].left = True
    gone[0].wait()
    finish(stage, inside, stays)
    assert len(taken(stage)) == 2
    assert stage.metrics.value("llm_gate_requests_total", outcome="cancelled") == 1


def test_of_many_streams_each_is_looked_at_less_often(stage: Stage) -> None:
    stage.engine(slots=64, max_sequences=64)
    gate = stage.gate(max_sequences=64)
    began = time.monotonic()
    inside = admit(gate, 60)
    eventually(lambda: all(client.looks > 1 for client in inside), "each was looked at twice")
    # The first look comes a tenth of a second after a request was let in; from then on, a hundred a second in all.
    assert time.monotonic() - began > LOOK_SECONDS + len(inside) / LOOKS_PER_SECOND
    finish(stage, inside)


def test_clients_of_a_level_take_turns(stage: Stage) -> None:
    stage.engine(slots=1, max_sequences=1)
    gate = stage.gate(max_sequences=1)
    groups = [
        admit(gate, client="a"),
        admit(gate, 5, client="a", text="from a"),
        admit(gate, client="b", text="from b"),
    ]
    finish(stage, *groups)
    assert "from b" in [request.prompt for request in taken(stage)[1:3]]


def test_an_older_gate_that_still_has_a_line_is_served_before_a_newer_one(stage: Stage) -> None:
    stage.engine(slots=1, max_sequences=1)
    old, new = stage.gate(max_sequences=1), stage.gate(max_sequences=1)
    inside, waiting_in_old = admit(new), admit(old, text="old")
    waiting_in_new = admit(new, text="new")
    finish(stage, inside, waiting_in_old, waiting_in_new)
    assert [request.prompt for request in taken(stage)] == ["hello", "old", "new"]


def test_a_line_that_came_to_nothing_holds_up_no_other_gate(stage: Stage) -> None:
    stage.engine(slots=1, max_sequences=1)
    old, new = stage.gate(max_sequences=1), stage.gate(max_sequences=1)
    inside, gone = admit(new), admit(old)
    gone[0].left = True
    gone[0].wait()
    waiting = admit(new)
    finish(stage, inside, waiting)
    assert waiting[0].final is not None


def test_a_batch_is_formed_when_the_engine_is_idle_from_all_that_wait(stage: Stage) -> None:
    stage.engine(slots=6, max_sequences=4)
    gate = stage.gate(Mode.DYNAMIC)
    groups = [admit(gate) for _ in range(7)]
    finish(stage, *groups)
    assert [len(batch) for batch in stage.engines[0].batches] == [1, 4, 2]
    assert stage.metrics.value("llm_gate_batches_total", batch_size="4") == 1


def test_a_static_batch_waits_until_it_is_full(stage: Stage) -> None:
    stage.go.set()
    stage.engine(slots=6, max_sequences=4)
    gate = stage.gate(Mode.STATIC, delay=60)
    first = admit(gate, 3)
    assert stage.server.slots.held() == 0
    finish(stage, first, admit(gate))
    assert [len(batch) for batch in stage.engines[0].batches] == [4]


def test_a_static_batch_that_does_not_fill_leaves_after_the_delay(stage: Stage) -> None:
    stage.engine(slots=6, max_sequences=4)
    gate = stage.gate(Mode.STATIC, delay=0.01)
    finish(stage, admit(gate, 3))
    assert [len(batch) for batch in stage.engines[0].batches] == [3]


def test_those_that_wait_are_told_when_the_gate_ends(stage: Stage) -> None:
    stage.engine(slots=1, max_sequences=1)
    gate = stage.gate(max_sequences=1)
    inside, waiting = admit(gate), admit(gate)
    gate.close()
    assert waiting[0].error == ("the gate ended while the request waited; send it again", Fault.UNAVAILABLE)
    inside[0].wait()
