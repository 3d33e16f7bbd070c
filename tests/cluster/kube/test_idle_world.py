"""What the operator really builds, once stored by a real API server, needs no second write."""

from __future__ import annotations

import pytest

from cluster.contexts import chosen_by_user
from llmservice.kube.differs import differing, needs_apply, stamp
from llmservice.kube.real import RealKube
from llmservice.kube.resources import Resource
from llmservice.workload.deployment import with_replicas
from tests.unit.workload.cases import CASES, Case

pytestmark = pytest.mark.cluster

KNOWN = [case for case in CASES if not (case.image_volumes and chosen_by_user()) and not case.several_nodes]
"""Image volumes are off by default until Kubernetes 1.35, and the API server then drops them; here they are on.
LeaderWorkerSets have a test of their own (tests/cluster/operator/test_several_nodes.py)."""


@pytest.mark.parametrize("case", KNOWN, ids=lambda case: case.name)
async def test_nothing_that_is_stored_needs_an_apply(case: Case, client: RealKube, namespace: str) -> None:
    for built in case.build().manifests:
        resource = Resource.of(built)
        if built["kind"] == "PodMonitor":  # another project's, not served here
            continue
        metadata = {**built["metadata"], "namespace": namespace}
        del metadata["ownerReferences"]
        desired = {**built, "metadata": metadata}
        if built["kind"] == "Deployment":
            desired = with_replicas(desired, 0)
        await client.apply(stamp(desired))
        live = await client.get(resource, namespace, metadata["name"])
        assert live is not None
        assert differing(desired, live) == []
        assert not needs_apply(desired, live)
