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
