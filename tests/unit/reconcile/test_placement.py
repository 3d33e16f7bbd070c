"""Placement in the loop: what nodes have free, how they share, a quota of many services, an API that is not served."""

from __future__ import annotations

from typing import Any

import pytest

from llmservice.api.fleet import FleetDefaults
from llmservice.kube import resources
from llmservice.kube.errors import Forbidden
from llmservice.kube.faults import Fault
from llmservice.kube.resources import Manifest
from llmservice.reconcile.fleet_view import NODES_SECONDS, WAITING_SECONDS, FleetView
from llmservice.reconcile.intent import Intent, intend
from llmservice.reconcile.observe import observe
from llmservice.reconcile.pool_of import pool_name
from llmservice.reconcile.quota import Quotas
from llmservice.reconcile.tuning_frame import settings_of
from tests.unit.reconcile.small_cluster import KEY, OPERATOR_KEY, SPEC, SmallCluster, unschedulable_status

pytestmark = pytest.mark.unit

GPU = "nvidia.com/gpu"
CLASS = "gpu.nvidia.com"
OTHER: Manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}
ON_GPU: dict[str, Any] = {
    "model": {"source": {"huggingFace": {"repo": "example/unknown", "revision": "a" * 40}}},
    "placement": {"pool": "big"},
    "engine": {"backend": "vllm", "parallelism": {"tensor": 2}},
}


def fleet(**pool: Any) -> FleetDefaults:
    own = {"accelerator": "a100-80gb", "nodeSelector": {"pool": "big"}, **pool}
    return FleetDefaults.model_validate({"pools": {"big": own, "cpu": {}}})


def node(name: str, zone: str = "a", gpus: int = 8, labels: dict[str, str] | None = None) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"pool": "big", "topology.kubernetes.io/zone": zone, **(labels or {})}},
        "status": {"allocatable": {"cpu": "8", GPU: str(gpus)}},
    }


def pod_on(name: str, where: str, gpus: int, phase: str = "Running") -> Manifest:
    container = {"name": "c", "resources": {"requests": {GPU: str(gpus)}, "limits": {GPU: str(gpus)}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "other"},
        "spec": {"nodeName": where, "containers": [container]},
        "status": {"phase": phase},
    }


def seeing(pool: FleetDefaults) -> SmallCluster:
    """A cluster whose loop looks at nodes, and whose pods find none."""
    cluster = SmallCluster(pool)
    cluster.loop.fleet_view = FleetView(cluster.kube, cluster.clock)
    cluster.pods_become = "unschedulable"
    return cluster


async def test_a_shortage_is_told_with_what_is_free_and_where() -> None:
    cluster = seeing(fleet())
    cluster.kube.put(OTHER)
    for one in (
        node("1", "a"),
        node("2", "b"),
        pod_on("x", "1", 7),
        pod_on("y", "2", 8),
        pod_on("z", "2", 8, "Failed"),
    ):
        cluster.kube.put(one)
    cluster.user_applies(ON_GPU, replicas=2)
    await cluster.converge()
    assert (
        "2 replicas wait for 4 nvidia.com/gpu in pool big (a: 1 of 8 free; b: 0 of 8 free):"
        in (cluster.condition("Ready")["message"])
    )
    shortage = cluster.status()["shortage"]
    assert (shortage["resource"], shortage["replicas"], shortage["missing"]) == (GPU, 2, 4)
    assert [(one["name"], one["free"]) for one in shortage["domains"]] == [("a", 1), ("b", 0)]
    cluster.pods_become = "ready"
    for name in cluster.pods():
        cluster.remove(resources.POD, name)
    await cluster.converge()
    assert "shortage" not in cluster.status()


async def test_claimed_devices_are_counted_in_slices_and_claims() -> None:
    cluster = seeing(fleet())
    cluster.kube.put(node("1", "a", 0))
    selectors = [{"cel": {"expression": f"device.attributes['{CLASS}'].type == 'gpu'"}}]
    kinds = ("gpu", "gpu", "gpu", "mig")
    devices = [{"name": f"gpu-{n}", "attributes": {"type": {"string": kind}}} for n, kind in enumerate(kinds)] + [
        {"name": "odd"}
    ]
    spec = {"driver": CLASS, "nodeName": "1", "devices": devices}
    pool = {"name": "1", "resourceSliceCount": 1}
    found = [
        {"kind": "DeviceClass", "metadata": {"name": CLASS}, "spec": {"selectors": selectors}},
        {"kind": "ResourceSlice", "metadata": {"name": "new"}, "spec": spec | {"pool": pool | {"generation": 2}}},
        {"kind": "ResourceSlice", "metadata": {"name": "old"}, "spec": spec | {"pool": pool | {"generation": 1}}},
        {
            "kind": "ResourceClaim",
            "metadata": {"name": "c", "namespace": "other"},
            "status": {
                "allocation": {
                    "devices": {"results": [{"driver": CLASS, "pool": "1", "device": "gpu-1", "request": "r"}]}
                }
            },
        },
    ]
    cluster.kube.put(OTHER)
    for one in found:
        cluster.kube.put({"apiVersion": "resource.k8s.io/v1", **one})
    cluster.user_applies(ON_GPU | {"placement": {"pool": "big", "allocation": "ResourceClaim"}})
    await cluster.converge()
    template = cluster.kube.peek(
        resources.RESOURCE_CLAIM_TEMPLATE, KEY[0], cluster.kube.names(resources.DEPLOYMENT, KEY[0])[0]
    )
    assert template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] == 2
    (name,) = cluster.pods()
    cluster.kube.change(
        resources.POD,
        KEY[0],
        name,
        lambda pod: pod["metadata"].update(annotations={"triton-llm.dev/claimed": '{"gpu.nvidia.com": 2}'}),
    )
    cluster.set_pod_status(name, unschedulable_status("0/1 nodes are available: 1 cannot allocate all claims."))
    await cluster.reconcile()
    assert f"1 replica waits for 2 {CLASS} in pool big (a: 2 of 3 free):" in cluster.condition("Ready")["message"]


async def test_a_kept_revision_keeps_its_claims_whatever_would_be_rendered_today() -> None:
    cluster = SmallCluster(fleet())
    cluster.user_applies(ON_GPU | {"placement": {"pool": "big", "allocation": "ResourceClaim"}})
    await cluster.converge()
    (name,) = cluster.kube.names(resources.RESOURCE_CLAIM_TEMPLATE, KEY[0])
    cluster.kube.change(
        resources.RESOURCE_CLAIM_TEMPLATE, KEY[0], name, lambda one: one["spec"]["spec"].update(by="an older operator")
    )
    assert await cluster.writes_of_a_pass() == []
    cluster.user_applies(ON_GPU)
    await cluster.converge()
    assert cluster.kube.names(resources.RESOURCE_CLAIM_TEMPLATE, KEY[0]) == []


async def test_claims_in_a_cluster_without_that_api_are_one_clear_condition() -> None:
    cluster = SmallCluster(fleet())
    cluster.kube.unserved.add(resources.RESOURCE_CLAIM_TEMPLATE)
    cluster.user_applies(ON_GPU | {"placement": {"pool": "big", "allocation": "ResourceClaim"}})
    await cluster.converge()
    ready = cluster.condition("Ready")
    assert ready["reason"] == "ApiMissing"
    assert "does not serve resource.k8s.io/v1" in ready["message"]
    assert "placement.allocation: ExtendedResource" in ready["message"]
    assert cluster.kube.names(resources.DEPLOYMENT, KEY[0]) == []
    cluster.user_applies(ON_GPU)
    await cluster.converge()
    assert cluster.condition("Ready")["reason"] == "Serving"


async def test_gpus_that_the_nodes_say_are_shared_are_refused_for_a_split_engine() -> None:
    cluster = seeing(fleet())
    cluster.kube.put(node("1", labels={f"{GPU}.replicas": "4", f"{GPU}.sharing-strategy": "mps"}))
    cluster.user_applies(ON_GPU)
    await cluster.converge()
    fits = cluster.condition("CapacityFits")
    assert (fits["status"], fits["reason"]) == ("False", "DoesNotFit")
    assert "shared by MPS" in fits["message"]
    assert cluster.kube.names(resources.DEPLOYMENT, KEY[0]) == []


async def test_an_operator_that_may_not_read_nodes_tells_what_the_scheduler_says() -> None:
    cluster = seeing(fleet())
    cluster.kube.journal.faults.append(
        Fault(Forbidden("nodes is forbidden", status=403), resource=resources.NODE, times=99)
    )
    cluster.user_applies(ON_GPU)
    await cluster.converge()
    message = cluster.condition("Ready")["message"]
    assert message.startswith("1 replica waits for 2 nvidia.com/gpu in pool big: no node has 2 nvidia.com/gpu free")
    asked = [call for call in cluster.kube.journal.calls if call.resource == resources.NODE]
    assert len(asked) == 1, "it is not asked again"


async def test_one_look_at_the_nodes_serves_all_that_ask_soon_after() -> None:
    cluster = SmallCluster(fleet())
    cluster.kube.put(node("1"))
    view = FleetView(cluster.kube, cluster.clock)
    pool = cluster.fleet.pools["big"]

    async def looks(seconds: float, *, waiting: bool) -> int:
        cluster.clock.elapsed += seconds
        before = len(cluster.kube.journal.calls)
        seen = await view.pool(pool, GPU, waiting=waiting)
        assert seen is not None
        assert seen.offered == 8
        return sum(call.resource == resources.NODE for call in cluster.kube.journal.calls[before:])

    assert await looks(0, waiting=False) == 1
    assert await looks(1, waiting=False) == 0
    assert await looks(1, waiting=True) == 1, "what is free was not counted yet"
    assert await looks(1, waiting=True) == 0
    assert await looks(WAITING_SECONDS + 1, waiting=True) == 1
    assert await looks(NODES_SECONDS - 1, waiting=False) == 0
    assert await looks(2, waiting=False) == 1


def other(name: str, created: str, replicas: int, there: int, tensor: int = 2) -> Manifest:
    spec = {**SPEC, **ON_GPU, "replicas": replicas, "engine": {"parallelism": {"tensor": tensor}}}
    return {
        "apiVersion": resources.LLM_SERVICE.api_version,
        "kind": "LLMService",
        "metadata": {"name": name, "namespace": KEY[0], "creationTimestamp": created},
        "spec": spec,
        "status": {"replicas": there, "pool": "big"},
    }


async def test_a_quota_is_shared_by_the_services_of_a_namespace() -> None:
    cluster = SmallCluster(fleet(quota={"default": 8}))
    cluster.kube.put(other("older", "2020-01-01T00:00:00Z", replicas=3, there=3))
    cluster.user_applies(ON_GPU, replicas=2)
    again = await cluster.reconcile()
    ready = cluster.condition("Ready")
    assert ready["reason"] == "QuotaExceeded"
    assert "may take 8 accelerators of pool big, 6 of them are taken (6 by older)" in ready["message"]
    assert "asks for 4: 2 are left for it" in ready["message"]
    assert again is not None, "nothing tells when the others free some"
    assert cluster.pods() == []
    cluster.user_applies(ON_GPU, replicas=1)
    await cluster.converge()
    assert len(cluster.pods()) == 1


async def test_a_service_that_has_its_share_keeps_it_when_an_older_one_grows() -> None:
    cluster = SmallCluster(fleet(quota={"*": 8}))
    cluster.kube.put(other("older", "2020-01-01T00:00:00Z", replicas=1, there=1))
    cluster.user_applies(ON_GPU, replicas=3)
    await cluster.converge()
    assert len(cluster.pods()) == 3
    cluster.kube.change(resources.LLM_SERVICE, KEY[0], "older", lambda one: one["spec"].update(replicas=4))
    await cluster.converge()
    assert cluster.condition("Ready")["status"] == "True"
    assert len(cluster.pods()) == 3


async def test_services_of_another_pool_or_namespace_take_nothing() -> None:
    cluster = SmallCluster(fleet(quota={"default": 4}))
    elsewhere = other("cpu", "2020-01-01T00:00:00Z", replicas=9, there=9)
    elsewhere["spec"]["placement"] = {"pool": "cpu"}
    cluster.kube.put(elsewhere)
    far = other("far", "2020-01-01T00:00:00Z", replicas=9, there=9)
    far["metadata"]["namespace"] = "other"
    cluster.kube.put(OTHER)
    cluster.kube.put(far)
    cluster.user_applies(ON_GPU, replicas=2)
    await cluster.converge()
    assert len(cluster.pods()) == 2


async def test_the_tuner_moves_replicas_within_the_quota() -> None:
    cluster = SmallCluster(fleet(quota={"default": 8}))
    cluster.kube.put(other("older", "2020-01-01T00:00:00Z", replicas=1, there=1))
    cluster.user_applies(ON_GPU, scaling={"minReplicas": 1, "maxReplicas": 9})
    await cluster.reconcile()
    cluster.kube.change(resources.LLM_SERVICE, *KEY, lambda one: one["status"]["knobs"].update(replicas=9))
    await cluster.converge()
    assert len(cluster.pods()) == 3, "8 accelerators, 2 of them another's, 2 for each replica"
    world = await observe(cluster.kube, KEY)
    claimants = await cluster.loop._quotas.claimants(cluster.kube, KEY, world.service or {})
    share = cluster.loop._quotas.share(KEY, "big", claimants)
    intent = intend(cluster.service(), cluster.fleet, OPERATOR_KEY, share=share)
    assert isinstance(intent, Intent)
    assert settings_of(intent, cluster.fleet).bounds.max_replicas == 3


@pytest.mark.parametrize("spec", [{}, {"placement": {}}, {"placement": {"pool": None}}])
async def test_a_service_that_names_no_pool_is_in_the_default_one_for_all_that_ask(spec: dict[str, Any]) -> None:
    default = FleetDefaults.model_validate({"pools": {"cpu": {"accelerator": "a100-80gb", "quota": {"*": 8}}}})
    cluster = SmallCluster(default)
    service = {"metadata": {"name": KEY[1], "namespace": KEY[0]}, "spec": spec}
    cluster.kube.put({"apiVersion": "triton-llm.dev/v1alpha1", "kind": "LLMService", **service})
    assert pool_name(service) == pool_name(None) == "cpu"
    claimants = await Quotas(default).claimants(cluster.kube, KEY, service)
    assert [one.name for one in claimants] == [KEY[1]]
