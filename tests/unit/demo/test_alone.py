"""Two demos at once: the second says so and leaves the first alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cluster import lifecycle, statefolder
from cluster.errors import ClusterError
from cluster.lifecycle import ComponentStatus
from cluster.settings import Settings, from_environment
from demo import __main__ as demo
from demo.alone import alone, claim
from demo.terminal import DemoError, Terminal

pytestmark = pytest.mark.unit

HOLD = """
import sys
from pathlib import Path
from demo.alone import alone
with alone(Path(sys.argv[1]), "llmservice-test"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("LLMSERVICE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LLMSERVICE_CLUSTER_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("LLMSERVICE_CLUSTER_NAME", raising=False)
    return from_environment()


@contextmanager
def another_demo(settings: Settings) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the demo's place."""
    command = [sys.executable, "-c", HOLD, str(settings.cache)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_second_demo_names_the_first_and_touches_nothing(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CONTEXT", raising=False)
    monkeypatch.setattr(demo, "_show", lambda *_args, **_kwargs: pytest.fail("the second demo began"))
    with another_demo(settings) as first:
        assert demo.main() == 1
        assert f"another demo (pid {first.pid}) runs in cluster llmservice-test" in capsys.readouterr().err
    assert not settings.state.exists()


def test_a_killed_demo_frees_its_place(settings: Settings) -> None:
    with another_demo(settings) as first:
        first.kill()
        first.wait()
        with alone(settings.cache, "llmservice-test"):
            held = (settings.cache / "locks" / "demo-llmservice-test.lock").read_text()
    assert held == f"{os.getpid()}\n"


def test_demos_in_two_clusters_do_not_meet(settings: Settings) -> None:
    with alone(settings.cache, "llmservice-test"), alone(settings.cache, "arn:aws/kind"):
        pass
    with alone(settings.cache, "one"), pytest.raises(DemoError, match="in cluster one"), alone(settings.cache, "one"):
        pytest.fail("two at once")


def test_a_cluster_that_runs_stays_and_one_of_a_demo_goes(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    statefolder.ensure(settings)
    assert claim(settings), "what is there has ended, after a restart of the machine for example"
    runs = [ComponentStatus("etcd", pid=1, memory_mib=1, healthy=True)]
    monkeypatch.setattr(lifecycle, "status", lambda _settings: runs)
    assert claim(settings), "an earlier demo left it"
    (settings.state / "demo").unlink()
    assert not claim(settings), "somebody else brought it up"


def test_a_state_folder_of_somebody_else_is_refused(settings: Settings) -> None:
    settings.state.mkdir(parents=True)
    (settings.state / "photo.jpg").touch()
    with pytest.raises(ClusterError, match="not a cluster's state folder"):
        claim(settings)


def test_the_clean_up_leaves_a_cluster_that_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    terminal = Terminal({})
    monkeypatch.setattr(terminal, "run", ran.append)
    demo._clean(terminal, embedded=True, removable=False, keep=False)
    assert not any("cluster down" in line for line in ran)
    demo._clean(terminal, embedded=True, removable=True, keep=False)
    assert ran[-1] == "python3 -m cluster down"
