"""What the operator really builds, once stored by a real API server, needs no second write."""

from __future__ import annotations

import pytest

from llmservice.kube.differs import differing, needs_apply, stamp
from llmservice.kube.real import RealKube
from llmservice.kube.resources import Resource
from llmservice.workload.keeper import with_replicas
from tests.cluster.known_cases import KNOWN
from tests.unit.workload.cases import Case

pytestmark = pytest.mark.cluster


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
