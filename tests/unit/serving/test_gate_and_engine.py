"""Gate and engine over real sockets and slots, in one process, with an engine that needs no time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from llmgate.client import Fault
from llmgate.gate import Gate
from llmserving.engine import Output
from llmserving.parameters import Mode
from tests.serving.clients import RecordingClient, prompt
from tests.serving.stage import Stage, eventually

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("running")]


@contextmanager
def admitting(gate: Gate, clients: list[RecordingClient], max_tokens: int = 3) -> Iterator[None]:
    """Admits in a thread, as Triton's `execute` does."""
    requests = [(prompt(max_tokens=max_tokens), client) for client in clients]
    thread = threading.Thread(target=lambda: gate.admit(requests))
    thread.start()
    yield
    thread.join(60)
    assert not thread.is_alive()


def test_tokens_come_in_order_and_the_slot_comes_back(stage: Stage) -> None:
    server, gate, client = stage.engine(), stage.gate(), RecordingClient()

    gate.admit([(prompt(max_tokens=5), client)])
    client.wait()

    assert client.text == "t0 t1 t2 t3 t4 "
    assert client.final is not None
    assert client.final.num_output_tokens == 5
    assert server.slots.held() == 0
    assert stage.metrics.value("llm_gate_requests_total", outcome="completed") == 1
    assert stage.engine_metrics.value("llm_engine_steps_total", batch_size="1") == 5
    assert stage.engine_metrics.value("llm_engine_tokens_total", kind="generated") == 5


def test_without_stream_everything_comes_at_once(stage: Stage) -> None:
    stage.engine()
    gate, client = stage.gate(), RecordingClient()

    gate.admit([(prompt(max_tokens=3, stream=False), client)])
    client.wait()

    assert client.tokens == []
    assert client.final is not None
    assert (client.final.text, client.final.token_ids) == ("t0 t1 t2 ", (0, 1, 2))


def test_requests_beyond_the_slots_wait_and_are_served(stage: Stage) -> None:
    stage.engine(slots=2, max_sequences=2)
    gate, clients = stage.gate(), [RecordingClient() for _ in range(9)]

    with admitting(gate, clients):
        for client in clients:
            client.wait()

    assert all(client.text == "t0 t1 t2 " for client in clients)


def test_a_client_that_leaves_ends_its_sequence(stage: Stage) -> None:
    server, gate, client = stage.engine(), stage.gate(), RecordingClient()

    gate.admit([(prompt(max_tokens=1_000_000), client)])
    client.left = True
    client.wait()

    assert client.final is None
    assert server.slots.held() == 0
    assert stage.metrics.value("llm_gate_requests_total", outcome="cancelled") == 1


def test_a_client_that_leaves_while_held_never_reaches_the_engine(stage: Stage) -> None:
    stage.go.clear()
    server, gate = stage.engine(slots=1), stage.gate()
    inside, held = RecordingClient(), RecordingClient()
    gate.admit([(prompt(), inside)])

    with admitting(gate, [held]):
        held.left = True
        held.wait()
    stage.go.set()
    inside.wait()

    assert sum(len(batch) for batch in stage.engines[0].batches) == 1
    assert server.slots.held() == 0


def test_a_refused_request_is_the_clients_fault(stage: Stage) -> None:
    stage.engine()
    gate, client = stage.gate(), RecordingClient()

    gate.admit([(prompt("refuse"), client)])
    client.wait()

    assert client.error == ("text_input: this prompt is refused", Fault.INVALID_ARG)


def test_a_step_that_raises_fails_every_request_with_the_reason(stage: Stage) -> None:
    stage.engine()
    gate, clients = stage.gate(), [RecordingClient(), RecordingClient()]

    gate.admit([(prompt(max_tokens=1_000_000), clients[0]), (prompt("crash"), clients[1])])
    for client in clients:
        client.wait()

    assert all(
        client.error == ("the engine failed: RuntimeError: the device is lost", Fault.INTERNAL) for client in clients
    )
    eventually(lambda: [str(failure) for failure in stage.failures] == ["the device is lost"], "the engine's end")
    eventually(lambda: bool(stage.complaints), "the gate's complaint that no engine is left")


def test_a_gate_that_dies_gives_its_slots_back(stage: Stage) -> None:
    server, dying, living = stage.engine(), stage.gate(), stage.gate()
    dying.admit([(prompt(max_tokens=1_000_000), RecordingClient()) for _ in range(3)])
    assert server.slots.held() == 3
    (link,) = dying._instances.links()
    assert link.slots.take(link.number) is not None  # taken, and never sent

    link._connection.shutdown(2)  # what the engine sees of a killed process

    eventually(lambda: server.slots.held() == 0, "every slot back")
    eventually(lambda: bool(stage.complaints), "the engine's complaint of a dead gate")
    assert "a gate process with 3 requests" in stage.complaints[0]
    client = RecordingClient()
    living.admit([(prompt(), client)])
    client.wait()
    assert client.text == "t0 t1 t2 "


def test_a_gate_that_leaves_is_no_death(stage: Stage) -> None:
    server, gate = stage.engine(), stage.gate()
    gate.close()
    eventually(lambda: not server._gates, "the gate gone")
    assert stage.complaints == []


def test_an_engine_that_stops_finishes_its_sequences_first(stage: Stage) -> None:
    stage.go.clear()
    server, gate, client = stage.engine(), stage.gate(), RecordingClient()
    gate.admit([(prompt(max_tokens=50), client)])
    stopping = threading.Thread(target=server.stop)
    stopping.start()
    eventually(lambda: not server.slots.admits(), "the end of admission")
    stage.go.set()

    stopping.join(60)
    client.wait()

    assert client.final is not None
    assert client.final.num_output_tokens == 50
    assert stage.place.instances() == []
    assert stage.complaints == []


def test_a_second_instance_is_found_and_the_least_loaded_is_chosen(stage: Stage) -> None:
    stage.go.clear()
    first, gate = stage.engine(), stage.gate()
    second = stage.engine()
    eventually(lambda: len(gate._instances.admitting()) == 2, "both instances found")

    clients = [RecordingClient() for _ in range(4)]
    gate.admit([(prompt(), client) for client in clients])

    assert (first.slots.held(), second.slots.held()) == (2, 2)
    stage.go.set()
    for client in clients:
        client.wait()


def test_requests_wait_for_an_engine_that_comes(stage: Stage) -> None:
    gate, client = stage.gate(), RecordingClient()

    with admitting(gate, [client]):
        stage.engine()
        client.wait()

    assert client.text == "t0 t1 t2 "


def test_without_an_engine_requests_fail_in_the_end(stage: Stage) -> None:
    gate, client = stage.gate(engine_wait=0.01), RecordingClient()
    with admitting(gate, [client]):
        client.wait()
    assert client.error == ("no engine instance is running; try again later", Fault.UNAVAILABLE)
    assert stage.complaints == [], "one that never came did not die"


@pytest.mark.parametrize("mode", [Mode.STATIC, Mode.DYNAMIC])
def test_a_batch_goes_to_the_engine_as_one(stage: Stage, mode: Mode) -> None:
    stage.engine()
    gate, clients = stage.gate(mode), [RecordingClient() for _ in range(3)]

    gate.admit([(prompt(), client) for client in clients])
    for client in clients:
        client.wait()

    assert [len(batch) for batch in stage.engines[0].batches] == [3]


def test_a_member_that_left_shrinks_the_batch(stage: Stage) -> None:
    stage.engine()
    gate, clients = stage.gate(Mode.DYNAMIC), [RecordingClient() for _ in range(3)]
    clients[1].left = True

    gate.admit([(prompt(), client) for client in clients])
    for client in clients:
        client.wait()

    assert [len(batch) for batch in stage.engines[0].batches] == [2]
    assert clients[1].final is None


def test_batches_of_two_gates_never_wait_for_each_other(stage: Stage) -> None:
    stage.engine(slots=6, max_sequences=4)
    gates = [stage.gate(Mode.DYNAMIC), stage.gate(Mode.DYNAMIC)]
    clients = [[RecordingClient() for _ in range(4)] for _ in range(6)]

    threads = [
        threading.Thread(target=lambda g=gate, mine=clients[i::2]: [g.admit([(prompt(), c) for c in b]) for b in mine])
        for i, gate in enumerate(gates)
    ]
    for thread in threads:
        thread.start()
    for client in [client for batch in clients for client in batch]:
        client.wait()
    for thread in threads:
        thread.join(60)

    assert sorted(len(batch) for batch in stage.engines[0].batches) == [4] * 6


def test_an_answer_that_cannot_be_sent_ends_that_stream_alone(stage: Stage) -> None:
    server = stage.engine()
    gate, clients = stage.gate(), [BrokenClient(), RecordingClient()]

    gate.admit([(prompt(max_tokens=50), client) for client in clients])
    clients[1].wait()

    assert clients[1].final is not None
    eventually(lambda: server.slots.held() == 0, "the slot of the broken stream")


class BrokenClient(RecordingClient):
    """Its server takes no answers."""

    def token(self, output: Output) -> None:
        raise RuntimeError("the response sender has been closed")
