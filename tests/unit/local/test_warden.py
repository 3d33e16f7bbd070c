"""What a process started ends with it, and only then."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from llmservice.local.warden import Warden

pytestmark = pytest.mark.unit

PARENT = """
import subprocess, sys
from pathlib import Path
from llmservice.local.warden import Warden
server = subprocess.Popen(["/bin/sh", "-c", "sleep 600 & wait"], start_new_session=True)
Warden(server.pid, Path(sys.argv[1]), [Path(path) for path in sys.argv[2:]])
print(server.pid, flush=True)
sys.stdin.read()
"""


def group_lives(group: int) -> bool:
    """Whether a process of the group is there that has not ended."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, found = status.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(found) == group and state != "Z":
            return True
    return False


def test_a_killed_parent_takes_the_group_and_its_files_along(tmp_path: Path) -> None:
    region, work, beside = tmp_path / "region_1_a", tmp_path / "work folder", tmp_path / "beside"
    region.touch()
    work.mkdir()
    (work / "log").touch()
    beside.touch()
    command = [sys.executable, "-c", PARENT, str(tmp_path / "region_1"), str(work)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        group = int(parent.stdout.readline())
        assert group_lives(group)
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while (group_lives(group) or work.exists()) and time.monotonic() < deadline:
        os.sched_yield()
    assert not group_lives(group)
    assert [path.name for path in tmp_path.iterdir()] == ["beside"]


def test_once_released_it_touches_nothing(tmp_path: Path) -> None:
    (tmp_path / "kept").touch()
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as server:
        Warden(server.pid, tmp_path / "kept", [tmp_path]).release()
        assert server.poll() is None
        server.kill()
    assert (tmp_path / "kept").exists()
