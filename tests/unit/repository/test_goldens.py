"""Every case renders to exactly its golden files.

After a change that is meant, run with LLMSERVICE_WRITE_GOLDENS=1, read the diff, and commit it with the change.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.unit.repository.cases import CASES, STOCK_CASES, Case

pytestmark = pytest.mark.unit

GOLDENS = Path(__file__).with_name("goldens")


@pytest.mark.parametrize("case", [*CASES, *STOCK_CASES], ids=lambda case: case.name)
def test_renders_its_golden_files(case: Case) -> None:
    folder = GOLDENS / case.name
    rendered = dict(case.render().files)
    if os.environ.get("LLMSERVICE_WRITE_GOLDENS") == "1":
        write(folder, rendered)
    golden = {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}
    assert rendered == golden


def test_every_golden_belongs_to_a_case() -> None:
    assert {path.name for path in GOLDENS.iterdir()} == {case.name for case in (*CASES, *STOCK_CASES)}


def write(folder: Path, files: dict[str, str]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
