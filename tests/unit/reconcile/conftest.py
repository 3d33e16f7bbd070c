"""A small cluster for each test."""

from __future__ import annotations

import pytest

from tests.unit.reconcile.small_cluster import SmallCluster


@pytest.fixture
def cluster() -> SmallCluster:
    return SmallCluster()
