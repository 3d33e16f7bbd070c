"""The whole operator against a real API server with the controllers of Kubernetes."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.cluster.operator.conftest import Apply, Find, Start
from tests.cluster.operator.operator_process import OperatorProcess, eventually
from tests.cluster_fixtures import Kubectl

pytestmark = pytest.mark.cluster

QUIET_SECONDS = 12.0
READY = (
    '{"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}, '
    '{"type": "ContainersReady", "status": "True"}]}}'
)
CHILDREN = "deployments,configmaps,services,serviceaccounts,poddisruptionbudgets,secrets,pods,replicasets"


def condition(service: dict[str, Any], kind: str) -> dict[str, Any]:
    found = service.get("status", {}).get("conditions", [])
    return next((one for one in found if one["type"] == kind), {})


def reported(find: Find, kind: str, reason: str, generation: int = 1) -> Callable[[], dict[str, Any]]:
    """Probes for a condition with a reason, judged for a generation."""

    def probe() -> dict[str, Any]:
        one = condition(find("llmservice", "chat"), kind)
        return one if one.get("reason") == reason and one["observedGeneration"] >= generation else {}

    return probe


def names(find: Find, kinds: str = CHILDREN) -> set[str]:
    ours = {f"{item['kind']}/{item['metadata']['name']}" for item in find(kinds).get("items", [])}
    return ours - {"ConfigMap/kube-root-ca.crt", "ServiceAccount/default"}


def leads(operator: OperatorProcess) -> Callable[[], bool]:
    return lambda: bool(operator.health().get("leader"))


def make_pods_ready(kubectl: Kubectl, namespace: str, find: Find) -> None:
    """Plays the kubelet: there is no node here."""
    for pod in find("pods")["items"]:
        kubectl("-n", namespace, "patch", "pod", pod["metadata"]["name"], "--subresource=status", "-p", READY)


def test_a_service_gets_its_children_and_tells_the_truth(
    start: Start, apply: Apply, find: Find, kubectl: Kubectl, namespace: str
) -> None:
    operator = start("a")
    eventually(operator.is_ready, "the operator is ready")
    apply()
    eventually(reported(find, "Ready", "Unschedulable"), "the missing node is told")
    revision = find("llmservice", "chat")["status"]["revision"]["name"]
    expected = {f"Deployment/chat-{revision}", f"ConfigMap/chat-{revision}", "Service/chat", "ServiceAccount/chat"}
    assert expected | {"PodDisruptionBudget/chat", "Secret/chat-triton"} <= names(find)
    make_pods_ready(kubectl, namespace, find)
    eventually(reported(find, "Ready", "Serving"), "the ready pod is told")
    assert find("llmservice", "chat")["status"]["replicasSummary"] == "1/1"
    passes = [line for line in operator.log() if line.get("service") == f"{namespace}/chat"]
    assert passes
    assert all(line["generation"] == 1 for line in passes)


def test_an_idle_world_is_not_written_to(
    start: Start, apply: Apply, find: Find, kubectl: Kubectl, namespace: str
) -> None:
    operator = start("a")
    apply()
    eventually(reported(find, "Ready", "Unschedulable"), "the service is looked at")
    make_pods_ready(kubectl, namespace, find)
    eventually(reported(find, "Progressing", "Settled"), "the service is settled")
    before = operator.writes_at_rest()
    begun = time.monotonic()
    assert before > 0
    eventually(lambda: time.monotonic() - begun > QUIET_SECONDS, "a quiet while has passed")
    assert operator.writes() == before


def test_a_changed_spec_replaces_the_revision_and_comes_back(start: Start, apply: Apply, find: Find) -> None:
    start("a")
    apply()
    first = eventually(lambda: names(find, "deployments"), "a Deployment")
    apply(engine={"image": "registry.example/triton:2"})
    eventually(lambda: (now := names(find, "deployments")) and len(now) == 1 and now != first, "another Deployment")
    apply()
    eventually(lambda: names(find, "deployments") == first, "the first Deployment")
    eventually(lambda: len(names(find, "configmaps")) == 1, "one ConfigMap")


def test_a_delay_changes_without_a_new_revision(start: Start, apply: Apply, find: Find) -> None:
    start("a")
    apply(batching={"mode": "Dynamic", "maxQueueDelay": "5ms"})
    (deployment,) = eventually(lambda: names(find, "deployments"), "a Deployment")
    apply(batching={"mode": "Dynamic", "maxQueueDelay": "9ms"})
    name = deployment.partition("/")[2]
    eventually(lambda: "9000" in str(find("configmap", name).get("data", "")), "the new delay in the ConfigMap")
    assert names(find, "deployments") == {deployment}


def test_of_two_replicas_one_leads_and_the_other_takes_over(start: Start, apply: Apply, find: Find) -> None:
    first = start("a")
    eventually(leads(first), "the first leads")
    second = start("b")
    eventually(second.is_ready, "a standby is ready")
    apply()
    eventually(reported(find, "Ready", "Unschedulable"), "the leader works")
    assert second.writes() == 0
    first.stop(signal.SIGKILL)
    apply(replicas=2)
    eventually(lambda: len(find("pods").get("items", [])) == 2, "the second works on")
    eventually(leads(second), "the second leads")


def test_a_replica_that_is_told_to_stop_gives_the_lease_back(start: Start) -> None:
    first = start("a")
    eventually(leads(first), "the first leads")
    second = start("b")
    eventually(second.is_ready, "the second stands by")
    assert first.stop() == 0
    eventually(leads(second), "the second leads at once", 6)
    assert [line for line in first.log() if line["level"] == "ERROR"] == []


def test_a_process_that_loses_the_lease_ends(start: Start, kubectl: Kubectl, namespace: str) -> None:
    operator = start("a")
    eventually(leads(operator), "it leads")
    kubectl(
        "-n", namespace, "patch", "lease", "llmservice-operator", "--type=merge", "-p",
        '{"spec": {"holderIdentity": "somebody else"}}',
    )  # fmt: skip
    assert operator.process.wait(20) == 1


def test_a_deleted_service_leaves_nothing_although_the_operator_is_away(
    start: Start, apply: Apply, find: Find, kubectl: Kubectl, namespace: str
) -> None:
    operator = start("a")
    apply()
    eventually(reported(find, "Ready", "Unschedulable"), "everything is there")
    operator.stop(signal.SIGKILL)
    kubectl("-n", namespace, "delete", "llmservice", "chat", "--timeout=20s")
    eventually(lambda: not names(find), "nothing is left", 60)


@pytest.mark.parametrize("kind", ["Service", "Secret"])
def test_an_object_of_somebody_else_is_not_taken_over(
    start: Start, apply: Apply, find: Find, kubectl: Kubectl, namespace: str, kind: str
) -> None:
    if kind == "Service":
        kubectl("-n", namespace, "create", "service", "clusterip", "chat", "--tcp=80")
    else:
        kubectl("-n", namespace, "create", "secret", "generic", "chat-triton", "--from-literal=mine=1")
    name = "chat" if kind == "Service" else "chat-triton"
    before = find(kind, name)
    start("a")
    apply()
    conflict = eventually(reported(find, "Ready", "NameConflict"), "the conflict is told")
    assert name in conflict["message"]
    assert find(kind, name) == before
    kubectl("-n", namespace, "delete", kind, name)
    apply(replicas=1)
    eventually(reported(find, "Ready", "Unschedulable", 2), "the service goes on")


def test_an_autoscaler_that_targets_a_service_finds_a_count(
    start: Start, apply: Apply, find: Find, kubectl: Kubectl, namespace: str
) -> None:
    start("a")
    apply()
    eventually(reported(find, "Ready", "Unschedulable"), "the service is looked at")
    kubectl("-n", namespace, "autoscale", "llmservice", "chat", "--min=1", "--max=3")
    kubectl("-n", namespace, "annotate", "llmservice", "chat", "look=again")
    eventually(lambda: find("llmservice", "chat")["spec"].get("replicas") == 1, "replicas are seeded")
    kubectl("-n", namespace, "scale", "llmservice", "chat", "--replicas=2")
    eventually(lambda: len(find("pods").get("items", [])) == 2, "the count of the scale subresource is followed")


def test_an_operator_without_a_key_says_so_and_ends(start: Start, tmp_path: Any) -> None:
    (tmp_path / "key").write_text("short")
    operator = start("a")
    assert operator.process.wait(30) == 2
    assert "write at least 16 random" in operator.log()[-1]["message"]
