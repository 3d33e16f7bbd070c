"""Parameters of config.pbtxt are read with their types, and errors name the key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from llmserving.parameters import MeetingPlace, Mode, ParameterError, Parameters

pytestmark = pytest.mark.unit

VALUES = {
    "slots": "18",
    "rate": "0.5",
    "eager": "true",
    "buckets": "[32, 64]",
    "mode": "Dynamic",
    "run_directory": "/dev/shm/llmservice",
    "service": "chat",
}
PARAMETERS = Parameters(VALUES, model="chat-engine")


def test_they_come_from_tritons_model_config() -> None:
    config = {"name": "chat", "parameters": {"slots": {"string_value": "18"}}}
    parameters = Parameters.from_model_config(json.dumps(config))
    assert (parameters.model, parameters.integer("slots")) == ("chat", 18)


def test_values_have_types() -> None:
    assert PARAMETERS.integer("slots", minimum=1) == 18
    assert PARAMETERS.number("rate") == 0.5
    assert PARAMETERS.flag("eager") is True
    assert PARAMETERS.integers("buckets") == (32, 64)
    assert PARAMETERS.mode() is Mode.DYNAMIC
    assert PARAMETERS.mode().runs_batches


def test_defaults_stand_in_for_what_is_absent() -> None:
    assert PARAMETERS.text("absent", "x") == "x"
    assert PARAMETERS.integer("absent", 3) == 3
    assert PARAMETERS.flag("absent", default=False) is False
    assert PARAMETERS.integers("absent", (1,)) == (1,)
    assert Parameters({}).mode() is Mode.CONTINUOUS


def test_errors_name_key_and_model() -> None:
    prefix = r"parameters\[{}\] in config.pbtxt of model chat-engine {}"
    with pytest.raises(ParameterError, match=prefix.format("absent", "is missing")):
        PARAMETERS.text("absent")
    with pytest.raises(ParameterError, match=prefix.format("slots", "must be at least 20, not 18")):
        PARAMETERS.integer("slots", minimum=20)
    with pytest.raises(ParameterError, match=prefix.format("mode", "must be a whole number")):
        PARAMETERS.integer("mode")
    with pytest.raises(ParameterError, match=prefix.format("mode", "must be a number")):
        PARAMETERS.number("mode")
    with pytest.raises(ParameterError, match=prefix.format("slots", "must be true or false")):
        PARAMETERS.flag("slots")
    with pytest.raises(ParameterError, match=prefix.format("slots", "must be a JSON list")):
        PARAMETERS.integers("slots")
    with pytest.raises(ParameterError, match=prefix.format("service", "must be one of None, Static")):
        PARAMETERS.mode("service")


def test_gate_and_engine_meet_in_the_services_folder() -> None:
    place = MeetingPlace.of(PARAMETERS)
    assert place.folder == Path("/dev/shm/llmservice/chat")
    assert place.socket("7-abc") == Path("/dev/shm/llmservice/chat/7-abc.sock")


def test_a_folder_too_long_for_sockets_is_refused() -> None:
    long = Parameters(VALUES | {"run_directory": "/dev/shm/" + "x" * 90})
    with pytest.raises(ParameterError, match="bytes too long for a Unix socket"):
        MeetingPlace.of(long)
