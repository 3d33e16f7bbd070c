"""The socket that gates find an engine by: kept, made again, told apart from another's, gone last."""

from __future__ import annotations

import shutil
import socket

import pytest

from llmserving import engine_server
from llmserving.engine_server import remove_dead_instances
from llmserving.server_process import listens
from llmserving.slots import Slots
from tests.serving.clients import RecordingClient, prompt
from tests.serving.stage import Stage, eventually

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("running")]


def test_what_a_dead_instance_left_behind_is_removed_and_nothing_else(stage: Stage) -> None:
    living = stage.engine()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(stage.place.socket("dead")))
    stage.place.slots("dead").touch()

    remove_dead_instances(stage.place)

    assert stage.place.instances() == [living.instance]
    assert not stage.place.slots("dead").exists()
    assert stage.place.slots(living.instance).exists()


@pytest.mark.parametrize("whole", [True, False])
def test_an_engine_whose_run_directory_was_removed_is_found_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    monkeypatch.setattr(engine_server, "AUDIT_SECONDS", 0.01)
    server, old = stage.engine(), stage.gate()

    if whole:
        shutil.rmtree(stage.place.run_directory)
    else:
        stage.place.socket(server.instance).unlink()
    eventually(lambda: stage.place.instances() == [server.instance], "the socket again")
    new, clients = stage.gate(), [RecordingClient(), RecordingClient()]
    old.admit([(prompt(max_tokens=1_000_000), clients[0])])
    new.admit([(prompt(max_tokens=1_000_000), clients[1])])

    table = Slots.open(stage.place.slots(server.instance))
    assert table.held() == server.slots.held() == 2, "one table, not two"
    for client in clients:
        client.left = True
        client.wait()
    assert stage.complaints == []


def test_another_instances_socket_in_its_place_is_not_taken_for_its_own(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_server, "AUDIT_SECONDS", 0.01)
    server = stage.engine()
    path = stage.place.socket(server.instance)
    path.unlink()
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.bind(str(path))

    eventually(lambda: listens(stage.place, server.instance), "its own socket again")


def test_an_engine_that_may_not_listen_any_more_ends_its_server(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_server, "AUDIT_SECONDS", 0.01)
    server = stage.engine()
    ended: list[str] = []
    monkeypatch.setattr(server._server, "end", ended.append)

    shutil.rmtree(stage.place.folder)
    stage.place.folder.write_text("in the way")

    eventually(lambda: bool(ended), "the server's end")
    assert f"engine instance {server.instance} cannot listen in {stage.place.folder}" in ended[0]
    stage.place.folder.unlink()


def test_admission_ends_before_the_socket_goes(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    server = stage.engine()
    seen: list[bool] = []
    monkeypatch.setattr(server._listener, "hide", lambda: seen.append(server.slots.admits()))

    assert server.stop(5)

    assert seen[0] is False
