"""Room in the cache: what is used longest ago goes, what live pods use stays, and too little is said beforehand."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from llmservice.weights import hold
from llmservice.weights.entry import Entry
from llmservice.weights.errors import ExitCode, WeightsError
from llmservice.weights.leases import GRACE_SECONDS, lease_path, used_entries, write_lease
from llmservice.weights.locks import try_lock
from llmservice.weights.room import reserve

pytestmark = pytest.mark.unit

KB = 1000


def stored(cache: Path, name: str, size: int, age: float) -> Entry:
    """A whole model of `size` bytes, used `age` seconds ago."""
    entry = Entry(cache / "entries" / name)
    entry.make()
    (entry.files / "model.safetensors").write_bytes(b"x" * size)
    entry.touch()
    used = (entry.folder / "used").stat().st_mtime - age
    os.utime(entry.folder / "used", (used, used))
    return entry


def new(cache: Path) -> Entry:
    return Entry(cache / "entries" / "new")


@contextmanager
def live_pod(cache: Path, uid: str) -> Iterator[subprocess.Popen[str]]:
    """The process that holds a pod's lease, as the pod's own container runs it."""
    command = [sys.executable, "-m", "llmservice.weights.hold", str(cache), uid]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"holding {uid}\n"
        try:
            yield process
        finally:
            process.terminate()
            assert process.wait(60) == 0


def age(path: Path, seconds: float) -> None:
    at = path.stat().st_mtime - seconds
    os.utime(path, (at, at))


def test_the_model_used_longest_ago_goes_first(tmp_path: Path) -> None:
    old, older, recent = (stored(tmp_path, name, 300 * KB, at) for name, at in (("b", 20), ("a", 30), ("c", 10)))
    removed = reserve(tmp_path, new(tmp_path), 500 * KB, pod=None, limit=1000 * KB)
    assert removed == ["a", "b"]
    assert (old.folder.exists(), older.folder.exists(), recent.folder.exists()) == (False, False, True)
    assert not (tmp_path / "trash").exists()


def test_nothing_goes_where_there_is_room(tmp_path: Path) -> None:
    stored(tmp_path, "a", 300 * KB, 10)
    assert reserve(tmp_path, new(tmp_path), 500 * KB, pod=None, limit=1000 * KB) == []


def test_what_a_live_pod_uses_stays_and_goes_once_the_pod_is_gone(tmp_path: Path) -> None:
    """Two services share the cache; the pod of one is deleted."""
    used, other = stored(tmp_path, "used", 600 * KB, 1000), stored(tmp_path, "other", 10 * KB, 1)
    with live_pod(tmp_path, "pod-1"):
        write_lease(tmp_path, "pod-1", used.name)
        age(lease_path(tmp_path, "pod-1"), GRACE_SECONDS + 1)
        with pytest.raises(WeightsError, match=r"0\.00 are left; 1 other models are kept") as caught:
            reserve(tmp_path, new(tmp_path), 600 * KB, pod=None, limit=600 * KB)
        assert caught.value.code is ExitCode.DISK_FULL
        assert used.folder.exists()
        assert not other.folder.exists()
        lease_path(tmp_path, "pod-1").touch()  # as it is while the pod lives
    assert reserve(tmp_path, new(tmp_path), 600 * KB, pod=None, limit=600 * KB) == ["used"]
    assert not lease_path(tmp_path, "pod-1").exists()


def test_a_lease_without_its_process_has_a_grace(tmp_path: Path) -> None:
    write_lease(tmp_path, "pod-2", "used")
    assert used_entries(tmp_path) == {"used"}
    age(lease_path(tmp_path, "pod-2"), GRACE_SECONDS + 1)
    assert used_entries(tmp_path) == set()


@pytest.mark.parametrize(
    ("number", "says"),
    [(errno.EACCES, "must belong to user 1000"), (errno.ENOLCK, "NFSv4"), (errno.ENOSPC, "is full")],
)
def test_a_cache_that_cannot_be_used_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int, says: str
) -> None:
    def refused(lease: Path) -> None:
        raise OSError(number, os.strerror(number), str(lease))

    monkeypatch.setattr(hold, "hold", refused)
    assert hold.main(tmp_path, "pod-4") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert str(tmp_path) in line
    assert says in line


def test_a_pod_that_was_killed_frees_its_lease(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "llmservice.weights.hold", str(tmp_path), "pod-3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with try_lock(lease_path(tmp_path, "pod-3")) as free:
            assert not free
        process.kill()
        process.wait(60)
    with try_lock(lease_path(tmp_path, "pod-3")) as free:
        assert free


def test_a_model_that_is_being_fetched_stays(tmp_path: Path) -> None:
    filled = stored(tmp_path, "filled", 600 * KB, 1000)
    with try_lock(filled.lock), pytest.raises(WeightsError, match="1 other models are kept"):
        reserve(tmp_path, new(tmp_path), 600 * KB, pod=None, limit=700 * KB)
    assert filled.folder.exists()


def test_what_a_fetch_will_take_counts_before_it_is_there(tmp_path: Path) -> None:
    filled = stored(tmp_path, "filled", 10 * KB, 1)
    filled.want(600 * KB)
    with try_lock(filled.lock), pytest.raises(WeightsError, match="no room for the weights"):
        reserve(tmp_path, new(tmp_path), 600 * KB, pod=None, limit=1000 * KB)


class _Usage(NamedTuple):
    total: int
    used: int
    free: int


def test_a_disk_smaller_than_the_weights_is_said_before_a_byte_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: _Usage(20_000_000_000, 8_000_000_000, 12_000_000_000))
    with pytest.raises(WeightsError, match=r"26\.00 GB more are needed, and 12\.00 of 20\.00 GB are free") as caught:
        reserve(tmp_path, new(tmp_path), 26_000_000_000, pod=None, limit=None)
    assert caught.value.code is ExitCode.DISK_FULL
    assert new(tmp_path).wanted() == 0


def test_a_model_that_is_there_serves_though_the_limit_was_lowered(tmp_path: Path) -> None:
    entry = stored(tmp_path, "new", 600 * KB, 1)
    assert reserve(tmp_path, entry, 600 * KB, pod=None, limit=100 * KB) == []
