"""Slots that change while engines serve: asked for with a token, kept for instances that come, told by every one."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from llmserving import engine_server
from llmserving.control import RefusedError, controlled
from llmserving.parameters import MeetingPlace
from llmserving.slot_setting import FILE, SlotSetting
from llmserving.slots import Slots, SlotsError
from tests.serving.clients import RecordingClient, meeting_place, prompt
from tests.serving.stage import Stage, eventually

pytestmark = pytest.mark.unit


def ask(stage: Stage, **asked: Any) -> dict[str, Any]:
    return controlled(json.dumps({"token": "secret", **asked}).encode(), stage.server, "secret")


def test_it_tells_and_sets_the_slots_of_every_instance(stage: Stage) -> None:
    first, second = stage.engine(slots=4), stage.engine(slots=4)
    assert ask(stage) == {"slots": {first.instance: 4, second.instance: 4}}
    assert ask(stage, slots=9) == {"slots": {first.instance: 9, second.instance: 9}}
    assert (first.slots.count, second.slots.count) == (9, 9)


def test_an_instance_that_comes_later_has_what_was_set(stage: Stage) -> None:
    stage.engine(slots=4)
    ask(stage, slots=9)
    assert stage.engine(slots=4).slots.count == 9


def test_a_newer_configuration_wins_over_what_was_set_under_an_older_one(stage: Stage) -> None:
    stage.engine(slots=4)
    ask(stage, slots=9)
    assert stage.engine(slots=6).slots.count == 6


def test_what_was_set_outlives_the_run_directory(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_server, "AUDIT_SECONDS", 0.01)
    stage.engine(slots=4)
    ask(stage, slots=9)
    shutil.rmtree(stage.place.run_directory)
    eventually(lambda: (stage.place.folder / FILE).exists(), "the setting again")
    assert stage.server.slots.count == 9
    assert stage.engine(slots=4).slots.count == 9


def test_a_gate_takes_more_and_fewer_slots_at_once(stage: Stage) -> None:
    stage.engine(slots=1, max_sequences=8)
    gate, clients = stage.gate(max_sequences=8), [RecordingClient() for _ in range(6)]
    gate.admit([(prompt(), client) for client in clients])
    assert stage.server.slots.held() == 1
    ask(stage, slots=4)
    eventually(lambda: stage.server.slots.held() == 4, "the gate uses what there is")
    eventually(lambda: stage.metrics.value("llm_gate_slots") == 4, "the gauge")
    ask(stage, slots=2)
    assert stage.server.slots.held() == 4, "nobody is thrown out"
    stage.go.set()
    for client in clients:
        client.wait()
    assert stage.server.slots.held() == 0


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (b"{", "control: must be a JSON object"),
        (b"[]", "control: must be a JSON object"),
        (b'{"slots": 9}', "the token is not this server's"),
        (b'{"token": "guess", "slots": 9}', "the token is not this server's"),
        (b'{"token": "secret", "slots": "9"}', "slots: must be a whole number, not '9'"),
        (b'{"token": "secret", "slots": 0}', "slots: slots must be between 1 and 65536, not 0"),
    ],
)
def test_what_may_not_or_cannot_be_done_is_refused(stage: Stage, asked: bytes, says: str) -> None:
    stage.engine(slots=4)
    with pytest.raises(RefusedError, match=says):
        controlled(asked, stage.server, "secret")
    assert stage.server.slots.count == 4


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"configured": "x"}'])
def test_a_setting_that_makes_no_sense_is_none(text: str) -> None:
    with meeting_place() as place:
        place.folder.mkdir(parents=True)
        (place.folder / FILE).write_text(text)
        assert SlotSetting(place, 5).in_force() == 5


def test_a_dead_instance_is_not_told(stage: Stage) -> None:
    living = stage.engine(slots=4)
    dead = MeetingPlace(stage.place.run_directory, "chat")
    dead.socket("1-dead").touch()
    Slots.create(dead.slots("1-dead"), 4).close()
    assert SlotSetting(stage.place, 4).counts() == {living.instance: 4}


def test_an_absurd_count_is_not_kept(stage: Stage) -> None:
    stage.engine(slots=4)
    with pytest.raises(SlotsError):
        stage.server.set_slots(0)
    assert not (stage.place.folder / FILE).exists()
