"""Ports that stay free until somebody listens, and a server that starts again when they did not."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from llmservice.local import tritonserver
from llmservice.local.installation import Installation
from llmservice.local.ports import CHOICE, free_ports, is_free
from llmservice.local.tritonserver import TritonServer, TritonserverError

pytestmark = pytest.mark.unit

SERVER = f"""#!{sys.executable}
import http.server, signal, sys
class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
class Server(http.server.HTTPServer):
    allow_reuse_address = False
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
port = next(int(one.split("=")[1]) for one in sys.argv if one.startswith("--http-port="))
Server(("127.0.0.1", port), Ready).serve_forever()
"""


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    binary = tmp_path / "tritonserver"
    binary.write_text(SERVER)
    binary.chmod(binary.stat().st_mode | stat.S_IXUSR)
    return Installation(binary, tmp_path / "backends")


def test_ports_are_distinct_and_free() -> None:
    first, second = free_ports(5), free_ports(5)
    assert len({*first, *second}) == 10, "none is given twice"
    assert all(port in CHOICE and is_free(port) for port in first)


def test_a_port_that_is_taken_is_not_given(taken: int) -> None:
    assert not is_free(taken)
    with pytest.raises(OSError, match=rf"no 1 free ports .* between {taken} and {taken}"):
        free_ports(1, range(taken, taken + 1))


def test_a_server_whose_port_was_taken_meanwhile_starts_with_others(
    tmp_path: Path, installation: Installation, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = iter([[taken, *free_ports(2)], free_ports(3)])
    monkeypatch.setattr(tritonserver, "free_ports", lambda _: next(chosen))
    with TritonServer(tmp_path, log=tmp_path / "log", installation=installation, start_timeout=60) as server:
        assert server.http_port != taken
        assert server.ready()
    assert next(chosen, None) is None


def test_a_port_that_was_asked_for_is_never_exchanged(tmp_path: Path, installation: Installation, taken: int) -> None:
    server = TritonServer(tmp_path, log=tmp_path / "log", installation=installation, http_port=taken)
    with pytest.raises(TritonserverError, match=r"(?s)ended with status 1 at start.*in use"):
        server.start()
    assert server.http_port == taken
