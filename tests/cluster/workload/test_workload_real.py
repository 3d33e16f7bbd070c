"""Every built object on a real API server: accepted, stable under a second apply, and kept by the next operator."""

from __future__ import annotations

import pytest

from llmservice.kube.client import FIELD_MANAGER
from llmservice.kube.real import RealKube
from llmservice.kube.resources import Manifest
from llmservice.workload.build import Workload
from llmservice.workload.keeper import with_replicas
from llmservice.workload.pinning import LiveRevision
from tests.cluster.known_cases import KNOWN
from tests.unit.workload.cases import Case
from tests.unit.workload.workloads import SMOLLM, fleet, service, workload

pytestmark = pytest.mark.cluster

NEW_OPERATOR = {"operatorImage": "registry.example/llmservice-operator:0.2.0"}


def placed(manifest: Manifest, namespace: str) -> Manifest:
    """`manifest` in the test's namespace, without the owner that does not exist and without pods."""
    metadata = {**manifest["metadata"], "namespace": namespace}
    del metadata["ownerReferences"]
    moved = {**manifest, "metadata": metadata}
    return with_replicas(moved, 0) if manifest["kind"] == "Deployment" else moved


async def apply(client: RealKube, built: Workload, namespace: str) -> dict[str, Manifest]:
    """What the API server answers, by kind. A PodMonitor's kind is another project's, and is not there."""
    return {
        manifest["kind"]: await client.apply(placed(manifest, namespace))
        for manifest in built.manifests
        if manifest["kind"] != "PodMonitor"
    }


def ours(found: Manifest) -> Manifest:
    """What of a stored object is ours. Controllers write the rest at any moment: status, and a revision's number."""
    metadata = {key: value for key, value in found["metadata"].items() if key != "resourceVersion"}
    metadata["managedFields"] = [entry for entry in metadata["managedFields"] if entry["manager"] == FIELD_MANAGER]
    metadata["annotations"] = {
        key: value for key, value in metadata.get("annotations", {}).items() if not key.startswith("deployment.k")
    }
    return {key: value for key, value in found.items() if key != "status"} | {"metadata": metadata}


@pytest.mark.parametrize("case", KNOWN, ids=lambda case: case.name)
async def test_the_api_server_takes_every_object_and_a_second_apply_changes_none(
    case: Case, client: RealKube, namespace: str
) -> None:
    first = await apply(client, case.build(), namespace)
    second = await apply(client, case.build(), namespace)
    assert {kind: ours(found) for kind, found in second.items()} == {kind: ours(found) for kind, found in first.items()}


@pytest.mark.parametrize("case", KNOWN, ids=lambda case: case.name)
async def test_applying_a_stored_revisions_own_template_again_changes_nothing_not_even_who_owns_what(
    case: Case, client: RealKube, namespace: str
) -> None:
    built = case.build()
    before = (await apply(client, built, namespace))["Deployment"]
    manifest = built.manifest("Deployment")
    manifest["spec"]["template"] = LiveRevision(before).template
    after = await client.apply(placed(manifest, namespace))
    assert ours(after) == ours(before)


async def test_an_upgrade_of_the_operator_writes_nothing(client: RealKube, namespace: str) -> None:
    asked = service({"model": SMOLLM})
    before = await apply(client, workload(asked, fleet()), namespace)
    live = [LiveRevision(before["Deployment"], before["ConfigMap"])]
    upgraded = workload(asked, fleet(NEW_OPERATOR), live=live)
    after = await apply(client, upgraded, namespace)
    assert upgraded.kept
    assert ours(after["Deployment"]) == ours(before["Deployment"])
