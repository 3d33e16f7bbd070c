"""A replica over several nodes, against a real API server and the controllers of StatefulSets."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.operator import leader_worker_sets
from tests.cluster.operator.conftest import Apply, Find, Start
from tests.cluster.operator.operator_process import eventually
from tests.cluster.operator.test_operator import QUIET_SECONDS, READY, reported
from tests.cluster_fixtures import Kubectl

pytestmark = pytest.mark.cluster

LONG = 240.0
FLEET = json.dumps({"pools": {"big": {"accelerator": "a100-80gb", "nodeSelector": {"no-node": "has-this"}}, "cpu": {}}})
ENGINE: dict[str, Any] = {"backend": "vllm", "parallelism": {"tensor": 8, "pipeline": 2, "nodes": 2}}
MODEL: dict[str, Any] = {"source": {"huggingFace": {"repo": "example/unknown", "revision": "a" * 40}}}
ASKED: dict[str, Any] = {"model": MODEL, "engine": ENGINE, "placement": {"pool": "big"}}


@pytest.fixture
def without_leader_worker_sets(kubectl: Kubectl) -> Iterator[None]:
    """A cluster in which nobody has installed them yet, and again when the test is over."""
    leader_worker_sets.uninstall(kubectl)
    yield
    leader_worker_sets.uninstall(kubectl)


@pytest.mark.usefixtures("without_leader_worker_sets")
def test_a_replica_over_two_nodes_is_made_counted_and_removed(
    start: Start, apply: Apply, find: Find, kubectl: Kubectl, namespace: str
) -> None:
    operator = start("a", fleet=FLEET, lease_seconds=60)
    eventually(operator.is_ready, "the operator is ready", LONG)
    apply(**ASKED)
    missing = eventually(reported(find, "Ready", "ApiMissing"), "the missing API is told", LONG)
    assert "install LeaderWorkerSet (kubernetes-sigs/lws)" in missing["message"]
    leader_worker_sets.install(kubectl)
    apply(**ASKED, scaling={"maxReplicas": 2})  # it would look again by itself, within a minute
    (found,) = eventually(lambda: find("leaderworkersets").get("items") or [], "a LeaderWorkerSet", LONG)
    assert found["spec"]["replicas"] == 1
    leader_worker_sets.make_leader(kubectl, found)
    name = found["metadata"]["name"]
    leader = eventually(lambda: find("pod", f"{name}-0"), "the leader", LONG)
    kubectl("-n", namespace, "patch", "pod", f"{name}-0", "--subresource=status", "-p", READY)
    kubectl("-n", namespace, "create", "quota", "one", "--hard=pods=1")
    eventually(lambda: (find("quota", "one").get("status") or {}).get("used"), "the quota counts the leader", LONG)
    leader_worker_sets.make_workers(kubectl, found, leader)
    refused = eventually(reported(find, "Degraded", "QuotaExceeded"), "the quota is told", LONG)
    assert f"in StatefulSet {name}-0 failed" in refused["message"]
    kubectl("-n", namespace, "delete", "quota", "one")
    eventually(lambda: find("pod", f"{name}-0-1"), "the worker", LONG)
    kubectl("-n", namespace, "patch", "pod", f"{name}-0-1", "--subresource=status", "-p", READY)
    eventually(reported(find, "Degraded", "Healthy"), "nothing is missing", LONG)
    eventually(reported(find, "Ready", "Serving"), "the replica serves", LONG)
    status = find("llmservice", "chat")["status"]
    assert (status["replicasSummary"], status["capacity"]["nodes"]) == ("1/1", 2)
    budget = find("poddisruptionbudget", "chat")["spec"]["selector"]["matchLabels"]
    assert budget.items() <= find("pod", f"{name}-0-1")["metadata"]["labels"].items()
    apply(**ASKED, scaling={"maxReplicas": 3})
    eventually(reported(find, "Ready", "Serving", generation=3), "the edit is seen", LONG)
    assert find("leaderworkerset", name)["metadata"]["generation"] == 1, "its pods are left alone"
    eventually(reported(find, "Progressing", "Settled", generation=3), "nothing is left to do", LONG)
    before, begun = operator.writes_at_rest(), time.monotonic()
    kubectl("-n", namespace, "annotate", "llmservice", "chat", "example.com/looked-at=again")
    eventually(lambda: time.monotonic() - begun > QUIET_SECONDS, "a quiet while has passed")
    assert operator.writes() == before
    apply(model=MODEL, placement={"pool": "big"}, engine={"backend": "vllm"})
    eventually(lambda: find("deployments").get("items"), "a Deployment takes over", LONG)
    guard = find("networkpolicy", "chat")["spec"]
    assert {"from": [{"podSelector": guard["podSelector"]}]} in guard["ingress"], "the group still serves"
    kubectl("-n", namespace, "delete", "llmservice", "chat", "--wait=false")
    eventually(lambda: not find("leaderworkersets").get("items"), "the set goes with its service", LONG)
    eventually(lambda: not find("pods").get("items"), "its pods go too", LONG)
