"""One line and one JSON entry a figure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.figures import Figures

pytestmark = pytest.mark.unit


def test_each_figure_is_one_line_and_one_entry(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = Figures("gate", tmp_path)
    figures.add("rate", 950.5, "tokens/s", 950, "higher")
    figures.add("lost", 1, "slots", 0)
    figures.add("load average", 3.25, "")

    written = json.loads(figures.write().read_text())

    assert capsys.readouterr().out.splitlines() == [
        "FIGURE rate 950.5 tokens/s goal 950 ok",
        "FIGURE lost 1 slots goal 0 short",
        "FIGURE load_average 3.25 - goal - -",
    ]
    assert [entry["ok"] for entry in written["figures"]] == [True, False, None]
    assert {"cpu", "cores", "memory_gib", "kernel", "python", "commit"} <= written["machine"].keys()
