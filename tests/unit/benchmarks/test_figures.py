"""One line and one JSON entry a figure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.figures import Figures, Size, quick, size

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


def test_what_could_not_be_measured_is_short_and_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = Figures("serving", tmp_path)
    figures.missing("torch_over_vllm", "ratio", "vllm ended with 1:\nno memory", 0.95, "higher")

    (entry,) = json.loads(figures.write().read_text())["figures"]

    assert capsys.readouterr().out == (
        "FIGURE torch_over_vllm - ratio goal 0.95 short (vllm ended with 1: no memory)\n"
    )
    assert (entry["value"], entry["ok"], entry["why"]) == (None, False, "vllm ended with 1: no memory")


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, Size.FULL),
        ({"QUICK": "0", "SMOKE": ""}, Size.FULL),
        ({"QUICK": "1"}, Size.QUICK),
        ({"QUICK": "1", "SMOKE": "1"}, Size.SMOKE),
    ],
)
def test_the_size_is_asked_for_in_the_environment(
    environment: dict[str, str], wanted: Size, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("QUICK", "SMOKE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert size() is wanted
    assert quick() is (wanted is not Size.FULL)
    assert Figures("gate", tmp_path).write().stem == ("gate-smoke" if wanted is Size.SMOKE else "gate")
