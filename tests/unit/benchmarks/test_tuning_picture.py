"""The picture of docs/tuning.md is drawn by our own code, and says what its text says."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.tritune.picture import TARGET, picture

pytestmark = pytest.mark.unit

PANELS = ("requests/s", "replicas", "delay of the gate, ms", "latency p99 <= 1100 ms (dashed), ms")


def words(path: Path) -> list[str]:
    root = ElementTree.parse(path).getroot()
    return [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text")]


def test_a_short_run_draws_every_panel(tmp_path: Path) -> None:
    path = tmp_path / "tuning.svg"
    picture(path, length=60.0)
    assert set(PANELS) <= set(words(path))


def test_the_committed_picture_is_small_and_of_this_code() -> None:
    assert set(PANELS) <= set(words(TARGET))
    assert TARGET.stat().st_size < 60_000
