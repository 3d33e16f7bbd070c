"""Folders and ports of a run."""

from __future__ import annotations

import shutil
import socket
import sys
from pathlib import Path

import pytest

from llmservice.local.errors import LocalError
from llmservice.local.greeting import lines_to_copy, openai_lines
from llmservice.local.host import Serving
from llmservice.local.installation import Installation
from llmservice.local.replica import Ports, Replica
from llmservice.local.run_folders import Folders
from tests.unit.local.manifests import intent

pytestmark = pytest.mark.unit
PORTS = Ports(http=1111, grpc=2222, metrics=3333, openai=4444, openai_admin=5555)


def test_ports_that_are_not_given_are_free_ones() -> None:
    ports = Ports.choose(None, None, None, None)
    assert len({ports.http, ports.grpc, ports.metrics, ports.openai, ports.openai_admin}) == 5


def test_a_port_that_is_taken_is_named_with_its_option() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(LocalError, match=f"--grpc-port {port} is taken"):
            Ports.choose(None, port, None, None)


def test_two_ports_are_not_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(LocalError, match="the same twice"):
        Ports.choose(port, None, port, None)


def test_the_lines_to_copy_have_the_real_ports() -> None:
    http, grpc, metrics = lines_to_copy("chat", PORTS)
    assert http.startswith("curl -sN http://127.0.0.1:1111/v2/models/chat/generate_stream -d '{")
    assert "127.0.0.1:2222 chat 'What is the capital of France?'" in grpc
    assert metrics == "curl -s http://127.0.0.1:3333/metrics"


def test_the_lines_for_openais_clients_have_its_port_and_a_name_that_is_served() -> None:
    curl, python = openai_lines("smollm2:135m", PORTS)
    assert curl.startswith('curl -sN http://127.0.0.1:4444/v1/chat/completions -d \'{"model": "smollm2:135m"')
    assert python.endswith("openai_chat.py http://127.0.0.1:4444/v1 smollm2:135m 'What is the capital of France?'")


def test_the_token_is_written_for_this_user_only(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("of an earlier run")
    file.chmod(0o644)
    serving = Serving(Installation(Path("/bin/false"), tmp_path), Path(sys.executable))
    replica = Replica(Folders(tmp_path, tmp_path), PORTS, tmp_path / "log", serving)
    replica.write_token(file)
    assert file.read_text() == replica.token
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_server_ends_and_starts_again_though_its_temporary_folders_were_taken_away(tmp_path: Path) -> None:
    places = Folders(tmp_path / "work", tmp_path / "run")
    ends_at_once = Serving(Installation(Path("/bin/false"), tmp_path), Path(sys.executable))
    replica = Replica(places, Ports.choose(None, None, None, None), places.work / "tritonserver.log", ends_at_once)
    for _ in range(2):
        replica.launch(intent())
        assert places.run.is_dir()
        shutil.rmtree(places.work)
        shutil.rmtree(places.run)
        assert not replica.clear_up().explained
    assert replica.server.log_tail() == ""
