"""The node of the `e2e` tests: the embedded cluster's, brought up when it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster import testing
from cluster.lifecycle import Tier
from tests.cluster_fixtures import kubectl, namespace
from tests.e2e.models import smollm2, smollm2_files
from tests.sharing import CLUSTER, CLUSTER_FOLDERS, scope_of

__all__ = ["kubeconfig", "kubectl", "namespace", "smollm2", "smollm2_files"]


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kubeconfig of the embedded cluster, or of LLMSERVICE_TEST_CONTEXT where the user names one."""
    return testing.kubeconfig(Tier.FULL, tmp_path_factory.mktemp("kubeconfig"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that use the cluster belong where one process runs them all."""
    for item in items:
        used = item.get_closest_marker("e2e") and "kubeconfig" in getattr(item, "fixturenames", ())
        if used and scope_of(item.nodeid) != CLUSTER:
            raise pytest.UsageError(f"{item.nodeid} uses the cluster: move it into a folder of {CLUSTER_FOLDERS}")
