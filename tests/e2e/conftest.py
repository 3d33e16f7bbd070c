"""The node of the `e2e` tests: the embedded cluster's, brought up when it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster import testing
from cluster.lifecycle import Tier
from tests.cluster_fixtures import kubectl, namespace
from tests.e2e.models import smollm2

__all__ = ["kubeconfig", "kubectl", "namespace", "smollm2"]


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kubeconfig of the embedded cluster, or of LLMSERVICE_TEST_CONTEXT where the user names one."""
    return testing.kubeconfig(Tier.FULL, tmp_path_factory.mktemp("kubeconfig"))


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Two processes share this tier: one has the cluster and waits for it, the other goes through the rest by file."""
    for item in items:
        if item.get_closest_marker("e2e"):
            cluster = "kubeconfig" in getattr(item, "fixturenames", ())
            item.add_marker(pytest.mark.xdist_group("cluster" if cluster else str(item.path)))
