"""How processes share the tests of one tier: all that use the one cluster stay in one, the others go by file."""

from __future__ import annotations

from typing import Final

from xdist.scheduler import LoadScopeScheduling

CLUSTER: Final = "cluster"
CLUSTER_FOLDERS: Final = ("tests/e2e/cluster_tool/", "tests/e2e/main_job/")


def scope_of(nodeid: str) -> str:
    """What tests of one process have in common: the cluster, else their file."""
    return CLUSTER if nodeid.startswith(CLUSTER_FOLDERS) else nodeid.partition("::")[0]


class ByCluster(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """Gives out the tests of one scope to one process, the largest scope first."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)
