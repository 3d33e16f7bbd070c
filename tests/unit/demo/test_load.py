"""The demo's load by itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Event, Thread

import pytest

pytestmark = pytest.mark.unit


@pytest.fixture
def heeding() -> Iterator[None]:
    """A shell's background jobs ignore Ctrl-C, and so does all that they start: whatever runs the tests may be one."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeding")
def test_ctrl_c_ends_it_without_a_trace() -> None:
    """Ctrl-C reaches every process of the demo, and only the demo itself says what it does about it."""
    asked, over = Event(), Event()

    class Silent(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.set()
            over.wait(30)

    server = HTTPServer(("127.0.0.1", 0), Silent)
    Thread(target=server.serve_forever, daemon=True).start()
    command = [sys.executable, "-m", "demo.load", f"http://127.0.0.1:{server.server_port}", "chat", "--streams", "1"]
    load = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert asked.wait(60)
        os.kill(load.pid, signal.SIGINT)
        said, _ = load.communicate(timeout=30)
    finally:
        load.kill()
        over.set()
        server.shutdown()
        server.server_close()
    assert (load.returncode, said) == (130, "")
