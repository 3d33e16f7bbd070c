"""Cases of workloads that the API server under test knows all kinds and fields of."""

from __future__ import annotations

from cluster.contexts import chosen_by_user
from tests.unit.workload.cases import CASES

KNOWN = [case for case in CASES if not (case.image_volumes and chosen_by_user()) and not case.several_nodes]
"""Image volumes are off by default until Kubernetes 1.35, and the API server then drops them; here they are on.
LeaderWorkerSets have a test of their own (tests/cluster/operator/test_several_nodes.py)."""
