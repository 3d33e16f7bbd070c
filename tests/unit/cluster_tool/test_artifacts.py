"""What the cache holds is complete or absent."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cluster.artifacts import built, digest, tree_digest
from cluster.settings import Settings

pytestmark = pytest.mark.unit


def write(folder: Path) -> None:
    (folder / "program").write_text("complete")


def test_a_thing_is_built_once(settings: Settings) -> None:
    calls: list[Path] = []

    def build(folder: Path) -> None:
        calls.append(folder)
        write(folder)

    for _ in range(2):
        folder = built(settings, "tool", "v1", "needed", build)
    assert len(calls) == 1
    assert (folder / "program").read_text() == "complete"


def test_an_interrupted_build_leaves_nothing_that_looks_complete_and_the_next_resumes(settings: Settings) -> None:
    def interrupted(folder: Path) -> None:
        (folder / "program").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        built(settings, "tool", "v1", "needed", interrupted)
    assert not (settings.cache / "tool-v1").exists()
    assert (built(settings, "tool", "v1", "needed", write) / "program").read_text() == "complete"
    assert [path.name for path in settings.cache.glob("*tool*")] == ["tool-v1"]


def test_two_runs_at_once_build_one(settings: Settings) -> None:
    calls: list[Path] = []

    def build(folder: Path) -> None:
        calls.append(folder)
        write(folder)

    with ThreadPoolExecutor(4) as pool:
        folders = list(pool.map(lambda _: built(settings, "tool", "v1", "needed", build), range(4)))
    assert len(calls) == 1
    assert len(set(folders)) == 1


def test_another_key_is_another_folder(settings: Settings) -> None:
    assert built(settings, "tool", "v1", "needed", write) != built(settings, "tool", "v2", "needed", write)


def test_parts_do_not_run_into_each_other() -> None:
    assert digest("ab", "c") != digest("a", "bc")


def test_the_digest_of_a_tree_sees_content_names_and_modes_but_no_byte_code(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    file = tmp_path / "src" / "a.py"
    file.write_text("1")
    seen = {tree_digest(tmp_path, ["src"])}
    (tmp_path / "src" / "__pycache__").mkdir()
    (tmp_path / "src" / "__pycache__" / "a.pyc").write_text("x")
    assert tree_digest(tmp_path, ["src"]) in seen
    file.write_text("2")
    seen.add(tree_digest(tmp_path, ["src"]))
    file.chmod(0o755)
    seen.add(tree_digest(tmp_path, ["src"]))
    file.rename(file.with_name("b.py"))
    seen.add(tree_digest(tmp_path, ["src"]))
    assert len(seen) == 4
