"""Survivors of a dead model process end the server: first by asking, then, when nothing computes, by force."""

from __future__ import annotations

import os
import signal
import socket
import threading

import pytest

from llmserving import server_process
from llmserving.parameters import MeetingPlace
from llmserving.server_process import ServerProcess, held_slots
from llmserving.slots import Slots
from tests.serving.clients import meeting_place

pytestmark = pytest.mark.unit


def test_the_server_is_asked_once_and_killed_when_all_is_quiet(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(server_process, "QUIET_SECONDS", 0.01)
    monkeypatch.setattr(server_process, "POLL_SECONDS", 0.001)
    sent: list[tuple[int, int]] = []
    killed = threading.Event()

    def kill(pid: int, number: int) -> None:
        sent.append((pid, number))
        if number == signal.SIGKILL:
            killed.set()

    with meeting_place() as place:
        server = ServerProcess(place, kill)
        server.end("a gate process died")
        server.end("a gate process died")
        assert killed.wait(60)

    assert sent == [(os.getppid(), signal.SIGTERM), (os.getppid(), signal.SIGKILL)]
    assert capfd.readouterr().err == "llmservice: ending tritonserver: a gate process died\n"


def test_a_process_that_leaves_first_sees_the_server_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_process, "QUIET_SECONDS", 0.05)
    monkeypatch.setattr(server_process, "POLL_SECONDS", 0.001)
    sent: list[int] = []
    with meeting_place() as place:
        server = ServerProcess(place, lambda _, number: sent.append(number))
        server.see_off()
        assert sent == [], "nobody ends the server, so nothing is waited for"
        server.end("a gate process died")
        server.see_off()
    assert sent == [signal.SIGTERM, signal.SIGKILL]


def test_another_process_that_got_the_servers_number_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    with meeting_place() as place:
        server = ServerProcess(place, lambda _, number: sent.append(number))
        another = os.getppid() + 1  # never 1: that is the parent where what started the tests has gone
        monkeypatch.setattr(os, "getppid", lambda: another)
        server._signal(signal.SIGTERM)
    assert sent == []


def with_one_slot_held(place: MeetingPlace, instance: str) -> socket.socket:
    """An instance that listens until what is returned is closed; its files stay, as those of a killed process do."""
    slots = Slots.create(place.slots(instance), 4)
    slots.take(1)
    slots.close()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(place.socket(instance)))
    listener.listen()
    return listener


def test_held_slots_are_counted_over_all_live_instances() -> None:
    with meeting_place() as place:
        place.folder.mkdir()
        first, second = with_one_slot_held(place, "a"), with_one_slot_held(place, "b")
        place.socket("broken").touch()
        with second:
            with first:
                assert held_slots(place) == 2
            assert held_slots(place) == 1
        assert held_slots(place) == 0


def test_what_a_killed_engine_held_keeps_no_server_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_process, "QUIET_SECONDS", 0.01)
    monkeypatch.setattr(server_process, "POLL_SECONDS", 0.001)
    sent: list[int] = []
    with meeting_place() as place:
        place.folder.mkdir()
        with_one_slot_held(place, "killed").close()
        server = ServerProcess(place, lambda _, number: sent.append(number))
        server.end("no engine instance is left")
        seeing_off = threading.Thread(target=server.see_off, daemon=True)
        seeing_off.start()
        seeing_off.join(60)
    assert sent == [signal.SIGTERM, signal.SIGKILL]
