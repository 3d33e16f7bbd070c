"""Too few GPUs in a pool of simulated nodes: how many are missing and where, until they come."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final
from uuid import uuid4

import pytest

from cluster.simulated import manifest
from tests.cluster.operator.conftest import Apply, Find, Start
from tests.cluster.operator.operator_process import eventually
from tests.cluster.operator.test_operator import condition
from tests.cluster_fixtures import Kubectl

pytestmark = pytest.mark.cluster

SIMULATED: Final = [{"key": "kwok.x-k8s.io/node", "operator": "Exists", "effect": "NoSchedule"}]


@pytest.fixture
def pool(kubectl: Kubectl) -> Iterator[str]:
    """The label value of nodes that are this test's own; they go with their pods."""
    name = f"shortage-{uuid4().hex[:8]}"
    yield name
    kubectl("delete", "nodes", "-l", f"example.com/pool={name}", "--ignore-not-found", "--wait=false")


def add_node(kubectl: Kubectl, pool: str, index: int, gpus: int) -> None:
    """A node of A100s, as GPU Feature Discovery labels it."""
    node = manifest("a100-80gb", index, gpus)
    node["metadata"]["name"] = f"{pool}-{index}"
    node["metadata"]["labels"] |= {"example.com/pool": pool, "kubernetes.io/hostname": f"{pool}-{index}"}
    kubectl("apply", "--server-side", "-f", "-", text=json.dumps(node))
    kubectl("apply", "--server-side", "--subresource=status", "-f", "-", text=json.dumps(node))


def test_a_shortage_says_how_many_gpus_are_missing_and_where(
    start: Start, apply: Apply, find: Find, kubectl: Kubectl, pool: str
) -> None:
    own = {
        "accelerator": "a100-80gb",
        "nodeSelector": {"example.com/pool": pool},
        "template": {"tolerations": SIMULATED},
    }
    operator = start("a", fleet=json.dumps({"pools": {"scarce": own}}))
    eventually(operator.is_ready, "the operator is ready")
    add_node(kubectl, pool, 0, gpus=0)
    apply(replicas=3, placement={"pool": "scarce"})

    def said(text: str) -> dict[str, Any]:
        ready = condition(find("llmservice", "chat"), "Ready")
        return ready if ready.get("reason") == "WaitingForGPU" and text in ready["message"] else {}

    eventually(lambda: said("3 replicas wait for 3 nvidia.com/gpu in pool scarce"), "three GPUs are missing", 60)
    capacity = find("llmservice", "chat")["status"]["capacity"]
    assert capacity["fits"] is True
    assert capacity["accelerator"] == "a100-80gb"

    def placed() -> list[str]:
        return sorted(pod["spec"]["nodeName"] for pod in find("pods")["items"] if pod["spec"].get("nodeName"))

    add_node(kubectl, pool, 1, gpus=2)
    eventually(lambda: len(placed()) == 2, "two replicas have a node", 60)
    assert find("llmservice", "chat")["status"]["summary"] == "WaitingForGPU"
    add_node(kubectl, pool, 2, gpus=2)
    eventually(lambda: len(placed()) == 3, "every replica has a node", 60)
    assert placed() == [f"{pool}-1", f"{pool}-1", f"{pool}-2"]
