"""Processes are ours only with the right start time, and stopping means gone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cluster import processes
from cluster.errors import ClusterError
from cluster.processes import Component
from cluster.settings import Settings

pytestmark = pytest.mark.unit

SLEEP = ("/bin/sleep", "60")


@pytest.fixture
def sleeper(settings: Settings) -> Iterator[Component]:
    settings.state.mkdir()
    yield Component("sleeper", SLEEP, ready=lambda: True)
    processes.stop(settings, "sleeper")


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """Somebody else's process."""
    with subprocess.Popen(SLEEP) as process:
        yield process
        process.kill()


def test_a_started_component_runs_and_a_second_start_does_nothing(settings: Settings, sleeper: Component) -> None:
    assert processes.ensure(settings, sleeper) == "not running"
    first = processes.running(settings, "sleeper")
    assert processes.ensure(settings, sleeper) is None
    assert processes.running(settings, "sleeper") == first


def test_a_killed_component_is_started_again(settings: Settings, sleeper: Component) -> None:
    processes.ensure(settings, sleeper)
    first = processes.running(settings, "sleeper")
    assert first is not None
    os.kill(first.pid, signal.SIGKILL)
    os.waitpid(first.pid, 0)
    assert processes.running(settings, "sleeper") is None
    assert processes.ensure(settings, sleeper) == "it had died"


def test_another_command_or_configuration_restarts_it(settings: Settings, sleeper: Component, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("1")
    configured = replace(sleeper, configuration=(config,))
    processes.ensure(settings, configured)
    config.write_text("2")
    assert processes.ensure(settings, configured) == "its configuration changed"
    assert processes.ensure(settings, replace(configured, command=("/bin/sleep", "61"))) == "its configuration changed"


def test_its_files_are_there_before_it_starts_and_another_text_restarts_it(
    settings: Settings, sleeper: Component
) -> None:
    file = settings.state / "conf" / "sleeper.json"
    processes.ensure(settings, replace(sleeper, configuration=(file,), files={file: "{}"}))
    assert file.read_text() == "{}"
    changed = replace(sleeper, configuration=(file,), files={file: "[]"})
    assert processes.ensure(settings, changed) == "its configuration changed"
    assert file.read_text() == "[]"
    assert processes.ensure(settings, changed) is None


def test_a_process_id_that_somebody_else_got_is_never_killed(
    settings: Settings, bystander: subprocess.Popen[bytes]
) -> None:
    started = processes.start_time(bystander.pid)
    assert started is not None
    file = settings.state / "run" / "etcd.pid"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"pid": bystander.pid, "started": started - 1, "digest": "d"}))
    assert processes.running(settings, "etcd") is None
    assert processes.stop(settings, "etcd") is False
    assert bystander.poll() is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}'])
def test_a_damaged_pid_file_is_no_process(settings: Settings, text: str) -> None:
    file = settings.state / "run" / "etcd.pid"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    assert processes.running(settings, "etcd") is None


def test_stopping_insists(settings: Settings) -> None:
    settings.state.mkdir()
    deaf = "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); signal.pause()"
    path = processes.log(settings, "deaf")
    heard = Component("deaf", (sys.executable, "-S", "-c", deaf), ready=lambda: path.stat().st_size > 0)
    processes.ensure(settings, heard)
    processes.wait_ready(settings, heard)
    assert processes.stop(settings, "deaf", seconds=0.1) is True
    assert processes.running(settings, "deaf") is None


def test_processes_without_a_pid_file_are_found_by_their_mark(settings: Settings, sleeper: Component) -> None:
    processes.ensure(settings, sleeper)
    current = processes.running(settings, "sleeper")
    assert current is not None
    (settings.state / "run" / "sleeper.pid").unlink()
    assert list(processes.marked(settings)) == [(current.pid, current.started)]
    processes.terminate(current.pid, current.started)
    assert list(processes.marked(settings)) == []


def test_a_component_that_dies_shows_its_last_words(settings: Settings) -> None:
    settings.state.mkdir()
    broken = Component("broken", ("/bin/sh", "-c", "echo no such certificate >&2; exit 1"), ready=lambda: False)
    processes.ensure(settings, broken)
    with pytest.raises(ClusterError, match=r"broken died while starting(.|\n)*no such certificate"):
        processes.wait_ready(settings, broken)


def test_an_answer_in_its_place_does_not_make_a_dead_component_ready(settings: Settings) -> None:
    settings.state.mkdir()
    broken = Component("broken", ("/bin/false",), ready=lambda: processes.running(settings, "broken") is None)
    processes.ensure(settings, broken)
    with pytest.raises(ClusterError, match="died while starting"):
        processes.wait_ready(settings, broken)


def test_a_component_that_never_gets_ready_says_so(settings: Settings, sleeper: Component) -> None:
    stuck = replace(sleeper, ready=lambda: False, seconds=0.05)
    processes.ensure(settings, stuck)
    with pytest.raises(ClusterError, match="sleeper is not ready"):
        processes.wait_ready(settings, stuck)
