"""Survivors of a dead model process end the server: first by asking, then, when nothing computes, by force."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from llmserving import server_process
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
        assert killed.wait(5)

    assert sent == [(os.getppid(), signal.SIGTERM), (os.getppid(), signal.SIGKILL)]
    assert capfd.readouterr().err == "llmservice: ending tritonserver: a gate process died\n"


def test_another_process_that_got_the_servers_number_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    with meeting_place() as place:
        server = ServerProcess(place, lambda _, number: sent.append(number))
        monkeypatch.setattr(os, "getppid", lambda: 1)
        server._signal(signal.SIGTERM)
    assert sent == []


def test_held_slots_are_counted_over_all_instances() -> None:
    with meeting_place() as place:
        place.folder.mkdir()
        for instance in ("a", "b"):
            slots = Slots.create(place.slots(instance), 4)
            place.socket(instance).touch()
            slots.take(1)
            slots.close()
        place.socket("broken").touch()
        assert held_slots(place) == 2
