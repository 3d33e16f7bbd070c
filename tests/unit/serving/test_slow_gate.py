"""A gate whose socket did not take everything at once gets the rest, whatever the engine does meanwhile."""

from __future__ import annotations

import socket

import pytest

from llmgate.gate import Gate
from llmserving.engine import Output
from llmserving.engine_server import EngineServer
from llmserving.parameters import Mode
from llmserving.protocol import Bye, FrameReader, Hello, Step, Welcome, encode
from tests.serving.clients import RecordingClient, meeting_place, prompt
from tests.serving.paced.paced_engine import PacedEngine

pytestmark = pytest.mark.unit


def complain(what: object) -> None:
    raise AssertionError(what)


def test_it_is_sent_while_the_engine_computes_for_another() -> None:
    with meeting_place() as place, socket.socket(socket.AF_UNIX) as slow:
        server = EngineServer(PacedEngine(2, sleep=lambda _: None), place, 4, failed=complain, gate_died=complain)
        server.start()
        slow.connect(str(place.socket(server.instance)))
        slow.settimeout(5)
        slow.sendall(encode(Hello()))
        reader = FrameReader(slow)
        welcome = reader.read()
        assert isinstance(welcome, Welcome)
        busy, client = Gate(place, Mode.CONTINUOUS, engines_died=complain), RecordingClient()
        busy.start()
        busy.admit([(prompt(max_tokens=1_000_000), client)])

        server._gates[welcome.gate]._unsent += encode(Step((Output(1, "late"),)))

        assert reader.read() == Step((Output(1, "late"),))
        assert not client.ended.is_set(), "the engine never rested"
        client.left = True
        client.wait()
        slow.sendall(encode(Bye()))
        busy.close()
        assert server.stop(5)
