"""A small cluster for each test, and a tuner that acts at once."""

from __future__ import annotations

import pytest

from llmservice.tuning import knob_moves
from tests.unit.reconcile.small_cluster import SmallCluster


@pytest.fixture
def cluster() -> SmallCluster:
    return SmallCluster()


@pytest.fixture
def misses_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A canary begins within a few windows; before half an hour of forecasts has come due a tuner moves no delay."""
    monkeypatch.setattr(knob_moves, "is_learnt", lambda _: True)
