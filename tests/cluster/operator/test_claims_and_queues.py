"""Accelerators by dynamic resource allocation, and pods that Kueue holds, against a real API server and scheduler."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from benchmarks.placement_world import DRIVER, resource_slice
from cluster.simulated import manifest
from tests.cluster.operator.conftest import Apply, Find, Start
from tests.cluster.operator.operator_process import eventually
from tests.cluster.operator.test_operator import condition
from tests.cluster_fixtures import Kubectl

pytestmark = pytest.mark.cluster

TOLERATED = {"template": {"tolerations": [{"operator": "Exists"}]}}
LONG = 240.0
"""A busy machine runs a scheduler, controllers and an operator slowly."""


@pytest.fixture
def mark(kubectl: Kubectl) -> Iterator[str]:
    """A label value and a DeviceClass of this test's own."""
    name = f"claims-{uuid4().hex[:8]}"
    yield name
    kubectl("delete", "nodes,resourceslices", "-l", f"example.com/pool={name}", "--ignore-not-found", "--wait=false")
    kubectl("delete", "deviceclass", name, "--ignore-not-found", "--wait=false")


def add_node(kubectl: Kubectl, mark: str, index: int, gpus: int) -> None:
    """A node whose GPUs are only in a ResourceSlice, as NVIDIA's driver publishes them."""
    name = f"{mark}-{index}"
    node = manifest("a100-80gb", index, gpus)
    node["metadata"] = {"name": name, "labels": {"example.com/pool": mark, "kubernetes.io/hostname": name}}
    node["status"]["allocatable"] = dict.fromkeys(("cpu", "pods"), "64") | {"memory": "1Ti"}
    published = resource_slice(name, mark, gpus)
    published["metadata"]["labels"] = {"example.com/pool": mark}
    kubectl("apply", "--server-side", "-f", "-", text=json.dumps(node))
    kubectl("apply", "--server-side", "--subresource=status", "-f", "-", text=json.dumps(node))
    kubectl("apply", "--server-side", "-f", "-", text=json.dumps(published))


def add_class(kubectl: Kubectl, mark: str) -> None:
    expression = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].pool == '{mark}'"
    selectors = [{"cel": {"expression": expression}}]
    device_class = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": mark}}
    kubectl("apply", "--server-side", "-f", "-", text=json.dumps(device_class | {"spec": {"selectors": selectors}}))


def ready(find: Find, reason: str, text: str) -> dict[str, Any]:
    found = condition(find("llmservice", "chat"), "Ready")
    return found if found.get("reason") == reason and text in found["message"] else {}


def placed(find: Find) -> list[str]:
    return sorted(pod["spec"]["nodeName"] for pod in find("pods")["items"] if pod["spec"].get("nodeName"))


def test_accelerators_are_claimed_and_what_is_missing_is_counted(
    start: Start, apply: Apply, find: Find, kubectl: Kubectl, mark: str
) -> None:
    pool = {"accelerator": "a100-80gb", "nodeSelector": {"example.com/pool": mark}, "deviceClass": mark, **TOLERATED}
    operator = start("a", fleet=json.dumps({"pools": {"claimed": pool}}), lease_seconds=60)
    eventually(operator.is_ready, "the operator is ready", LONG)
    add_node(kubectl, mark, 0, gpus=2)
    apply(replicas=3, placement={"pool": "claimed", "allocation": "ResourceClaim"})
    missing = f"there is no DeviceClass {mark}"
    eventually(lambda: ready(find, "WaitingForGPU", missing), "the driver is missed", LONG)
    add_class(kubectl, mark)
    eventually(lambda: len(placed(find)) == 2, "two replicas have a device each", LONG)
    claims = find("resourceclaims")["items"]
    results = [one["status"]["allocation"]["devices"]["results"] for one in claims if "allocation" in one["status"]]
    assert {one["device"] for (one,) in results} == {"gpu-0", "gpu-1"}
    said = f"1 replica waits for 1 {mark} in pool claimed (0 of 2 free; "
    eventually(lambda: said in json.dumps(find("llmservice", "chat")["status"]), "one device is missing", LONG)
    add_node(kubectl, mark, 1, gpus=1)
    eventually(lambda: placed(find) == [f"{mark}-0", f"{mark}-0", f"{mark}-1"], "every replica has a device", LONG)
    apply(replicas=3, placement={"pool": "claimed"})
    eventually(lambda: "shortage" in find("llmservice", "chat")["status"], "extended resources there are none", LONG)


def test_pods_that_kueue_holds_wait_for_their_queue(
    start: Start, apply: Apply, find: Find, kubectl: Kubectl, namespace: str
) -> None:
    operator = start("a", lease_seconds=60)
    eventually(operator.is_ready, "the operator is ready", LONG)
    apply(placement={"queue": {"name": "team-a"}})
    (deployment,) = eventually(lambda: find("deployments").get("items") or [], "a Deployment", LONG)
    for labels in (deployment["metadata"]["labels"], deployment["spec"]["template"]["metadata"]["labels"]):
        assert labels["kueue.x-k8s.io/queue-name"] == "team-a"
    # What Kueue's webhook does to each pod, done here to their template: a gate can only be there from the start.
    gates = {"spec": {"template": {"spec": {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}}}}
    name = deployment["metadata"]["name"]
    kubectl("-n", namespace, "patch", "deployment", name, "--field-manager=kueue", "-p", json.dumps(gates))
    eventually(lambda: ready(find, "WaitingForQueue", "to queue team-a"), "the queue is waited for", LONG)
    assert find("llmservice", "chat")["status"]["summary"] == "WaitingForQueue"
    admitted = [{"op": "remove", "path": "/spec/schedulingGates"}]
    for pod in find("pods")["items"]:
        if pod["spec"].get("schedulingGates"):
            kubectl("-n", namespace, "patch", "pod", pod["metadata"]["name"], "--type=json", "-p", json.dumps(admitted))
    eventually(lambda: ready(find, "Unschedulable", "no node takes the pod"), "it is the scheduler's turn", LONG)
