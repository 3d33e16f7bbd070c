"""Folders of a run: gone with it, and with the next one where it was killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from llmservice.local.run_folders import folders, remove_leftovers

pytestmark = pytest.mark.unit

RUN = """
import sys
from llmservice.local.run_folders import folders
with folders() as places:
    print(places.work, places.run, flush=True)
    sys.stdin.read()
"""


def test_folders_are_gone_afterwards() -> None:
    with folders() as places:
        assert places.work.is_dir()
        assert str(places.run).startswith("/dev/shm/llmservice-")
    assert not places.work.exists()
    assert not places.run.exists()


def test_a_run_that_lives_keeps_its_folders_and_one_that_was_killed_loses_them() -> None:
    with subprocess.Popen([sys.executable, "-c", RUN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        theirs = [Path(word) for word in run.stdout.readline().split()]
        with folders():
            assert [path.is_dir() for path in theirs] == [True, True]
        run.send_signal(signal.SIGKILL)
        run.wait()
    assert [path.is_dir() for path in theirs] == [True, True]
    with folders():
        assert [path.exists() for path in theirs] == [False, False]


def test_what_is_not_known_to_be_a_dead_runs_stays(tmp_path: Path) -> None:
    without_lock, elsewhere = tmp_path / "llmservice-mine", tmp_path / "photos"
    for folder in (without_lock, elsewhere):
        folder.mkdir()
    (elsewhere / "run.lock").touch()
    (tmp_path / "llmservice-link").symlink_to(elsewhere)
    remove_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["llmservice-link", "llmservice-mine", "photos"]
    assert (elsewhere / "run.lock").exists()
