"""An edit is told once, when the file has settled."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmservice.local.watched_file import WatchedFile

pytestmark = pytest.mark.unit


def test_a_file_in_peace_is_not_edited(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    watched = WatchedFile(tmp_path / "a")
    assert not any(watched.edited() for _ in range(3))


def test_an_edit_counts_once_and_only_when_it_has_settled(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("x")
    watched = WatchedFile(path)
    path.write_text("half")
    first = watched.edited()
    path.write_text("whole of it")
    assert (first, watched.edited(), watched.edited(), watched.edited()) == (False, False, True, False)


def test_a_file_that_an_editor_replaces_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("x")
    watched = WatchedFile(path)
    path.unlink()
    assert not watched.edited()
    (tmp_path / "b").write_text("y")
    (tmp_path / "b").rename(path)
    assert (watched.edited(), watched.edited()) == (False, True)


def test_a_file_that_is_gone_is_told_once_each_time_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("x")
    watched = WatchedFile(path)

    def look() -> tuple[bool, bool]:
        return watched.edited(), watched.vanished()

    assert look() == (False, False)
    path.unlink()
    assert [look() for _ in range(4)] == [(False, False), (False, True), (False, False), (False, False)]
    path.write_text("y")
    assert [look() for _ in range(2)] == [(False, False), (True, False)]
    path.unlink()
    assert [look() for _ in range(3)] == [(False, False), (False, True), (False, False)]


def test_a_file_that_an_editor_replaces_is_not_gone(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("x")
    watched = WatchedFile(path)
    path.unlink()
    assert (watched.edited(), watched.vanished()) == (False, False)
    path.write_text("y")
    assert (watched.edited(), watched.vanished()) == (False, False)
