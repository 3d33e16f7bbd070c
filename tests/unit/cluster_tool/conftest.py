"""A cluster's settings in folders of the test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.settings import Settings, from_environment


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    short = {"LLMSERVICE_CLUSTER_NAME": "t", "HOME": str(tmp_path), "LLMSERVICE_CLUSTER_STATE": "/nowhere"}
    found = from_environment(short)
    return Settings(found.name, tmp_path / "cache", tmp_path / "state", found.pod_network, found.service_network)
