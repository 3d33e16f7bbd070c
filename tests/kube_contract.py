"""What every `KubeClient` does: cases that run on the fake and on a real API server, so that the fake stays honest.

A case is a coroutine of (client, namespace). The namespace exists and is empty; names may repeat between cases.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from llmservice.kube import resources as r
from llmservice.kube.client import KubeClient
from llmservice.kube.differs import differing, needs_apply, stamp
from llmservice.kube.errors import (
    AlreadyExists,
    Conflict,
    Invalid,
    KubeError,
    NamespaceTerminating,
    NotFound,
    NotServed,
)
from llmservice.kube.resources import Manifest

Case = Callable[[KubeClient, str], Awaitable[None]]
CASES: dict[str, Case] = {}
NOON = "2026-01-01T12:00:00Z"


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


async def eventually(check: Callable[[], Awaitable[bool]], *, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not await check():
        assert time.monotonic() < deadline, f"not so after {seconds} s"
        await asyncio.sleep(0.05)


def config_map(
    namespace: str, name: str = "settings", *, data: dict[str, str] | None = None, **metadata: Any
) -> Manifest:
    metadata = {"name": name, "namespace": namespace, **metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data or {"delay": "5"}}


def deployment(namespace: str, name: str = "chat", *, image: str = "triton:1") -> Manifest:
    labels = {"app.kubernetes.io/instance": name}
    container = {
        "name": "triton",
        "image": image,
        "env": [{"name": "EMPTY", "value": ""}, {"name": "MODEL", "value": "chat"}],
        "ports": [{"name": "http", "containerPort": 8000}, {"name": "grpc", "containerPort": 8001, "protocol": "TCP"}],
        "resources": {"limits": {"cpu": "1000m", "memory": "2048Mi"}, "requests": {"cpu": 0.5, "memory": "1.5Gi"}},
        "readinessProbe": {"httpGet": {"path": "/v2/models/chat/ready", "port": "http"}, "initialDelaySeconds": 0},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True},
        "volumeMounts": [{"name": "repository", "mountPath": "/repository", "readOnly": False}],
    }
    pod = {
        "containers": [container],
        "volumes": [
            {"name": "repository", "emptyDir": {}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1024Mi"}},
            {"name": "rendered", "configMap": {"name": "settings", "items": []}},
        ],
        "nodeSelector": {},
        "automountServiceAccountToken": False,
        "hostNetwork": False,
        "terminationGracePeriodSeconds": 330,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {
            "replicas": 0,
            "minReadySeconds": 0,
            "selector": {"matchLabels": labels},
            "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": "0%"}},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def service(namespace: str, name: str = "chat") -> Manifest:
    ports = [{"name": "http", "port": 8000, "targetPort": "http"}, {"name": "grpc", "port": 8001, "targetPort": 8001}]
    spec = {"type": "ClusterIP", "selector": {"app.kubernetes.io/instance": name}, "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


@case
async def what_is_not_there_reads_as_none(client: KubeClient, namespace: str) -> None:
    assert await client.get(r.CONFIG_MAP, namespace, "missing") is None
    assert await client.get(r.NAMESPACE, None, "missing") is None
    assert await client.list(r.CONFIG_MAP, "missing") == []


@case
async def apply_creates_then_changes_then_leaves_alone(client: KubeClient, namespace: str) -> None:
    first = await client.apply(config_map(namespace))
    second = await client.apply(config_map(namespace, data={"delay": "7"}))
    third = await client.apply(config_map(namespace, data={"delay": "7"}))
    assert first["metadata"]["uid"] == second["metadata"]["uid"]
    assert first["metadata"]["resourceVersion"] != second["metadata"]["resourceVersion"]
    assert second["metadata"]["resourceVersion"] == third["metadata"]["resourceVersion"]
    assert third["data"] == {"delay": "7"}
    assert await client.get(r.CONFIG_MAP, namespace, "settings") == third


@case
async def a_field_given_up_by_its_only_owner_vanishes(client: KubeClient, namespace: str) -> None:
    await client.apply(config_map(namespace, data={"a": "1", "b": "2"}, labels={"x": "1", "y": "2"}))
    found = await client.apply(config_map(namespace, data={"a": "1"}, labels={"y": "2"}))
    assert found["data"] == {"a": "1"}
    assert found["metadata"]["labels"] == {"y": "2"}
    found = await client.apply(config_map(namespace, data={"a": "1"}))
    assert "labels" not in found["metadata"]


@case
async def fields_of_another_manager_stay(client: KubeClient, namespace: str) -> None:
    await client.apply(config_map(namespace, data={"theirs": "1"}, labels={"theirs": "1"}), field_manager="other")
    await client.apply(config_map(namespace, data={"ours": "1"}, labels={"ours": "1"}))
    found = await client.apply(config_map(namespace, data={"mine": "1"}))
    assert found["data"] == {"theirs": "1", "mine": "1"}
    assert found["metadata"]["labels"] == {"theirs": "1"}


@case
async def a_shared_field_stays_until_its_last_owner_gives_it_up(client: KubeClient, namespace: str) -> None:
    await client.apply(config_map(namespace, data={"shared": "1"}))
    await client.apply(config_map(namespace, data={"shared": "1", "theirs": "1"}), field_manager="other")
    found = await client.apply(config_map(namespace, data={"ours": "1"}))
    assert found["data"] == {"shared": "1", "theirs": "1", "ours": "1"}
    found = await client.apply(config_map(namespace, data={"theirs": "1"}), field_manager="other")
    assert found["data"] == {"theirs": "1", "ours": "1"}


@case
async def without_force_another_manager_s_value_is_a_conflict(client: KubeClient, namespace: str) -> None:
    await client.apply(config_map(namespace, data={"delay": "1"}), field_manager="other")
    with pytest.raises(Conflict, match="other") as refused:
        await client.apply(config_map(namespace, data={"delay": "2"}), force=False)
    assert refused.value.details["causes"][0]["field"] == ".data.delay"
    agreed = await client.apply(config_map(namespace, data={"delay": "1"}), force=False)
    assert agreed["data"] == {"delay": "1"}


@case
async def force_takes_the_field_away(client: KubeClient, namespace: str) -> None:
    await client.apply(config_map(namespace, data={"delay": "1"}), field_manager="other")
    taken = await client.apply(config_map(namespace, data={"delay": "2"}))
    assert taken["data"] == {"delay": "2"}
    given_up = await client.apply(config_map(namespace, data={"a": "1"}))
    assert given_up["data"] == {"a": "1"}


@case
async def items_of_named_lists_are_fields(client: KubeClient, namespace: str) -> None:
    await client.apply(deployment(namespace))
    theirs = deployment(namespace)
    env = [{"name": "THEIRS", "value": "1"}]
    theirs["spec"] = {"template": {"spec": {"containers": [{"name": "triton", "env": env}]}}}
    del theirs["metadata"]["labels"]
    await client.apply(theirs, field_manager="other")
    ours = deployment(namespace)
    ours["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "NEW", "value": "2"}]
    found = await client.apply(ours)
    stored = found["spec"]["template"]["spec"]["containers"][0]["env"]
    assert sorted(item["name"] for item in stored) == ["NEW", "THEIRS"]


@case
async def owners_are_recorded_as_fields(client: KubeClient, namespace: str) -> None:
    await client.apply(service(namespace))
    found = await client.get(r.SERVICE, namespace, "chat")
    assert found is not None
    (entry,) = [e for e in found["metadata"]["managedFields"] if e["manager"] == "triton-llm-operator"]
    assert entry["operation"] == "Apply"
    spec = entry["fieldsV1"]["f:spec"]
    assert spec["f:selector"] == {}
    assert spec["f:ports"]['k:{"port":8000,"protocol":"TCP"}'] == {
        ".": {},
        "f:name": {},
        "f:port": {},
        "f:targetPort": {},
    }


@case
async def generation_counts_changes_of_the_spec_only(client: KubeClient, namespace: str) -> None:
    first = await client.apply(deployment(namespace))
    labelled = deployment(namespace)
    labelled["metadata"]["labels"]["more"] = "1"
    second = await client.apply(labelled)
    third = await client.apply(deployment(namespace, image="triton:2"))
    generations = [found["metadata"]["generation"] for found in (first, second, third)]
    assert generations == [1, 1, 2]


@case
async def status_is_apart_from_spec(client: KubeClient, namespace: str) -> None:
    status = {
        "conditions": [
            {"type": "Tuned", "status": "True", "reason": "Settled", "message": "", "lastTransitionTime": NOON}
        ]
    }
    budget: Manifest = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "chat", "namespace": namespace},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"a": "b"}}},
    }
    created = await client.apply({**budget, "status": {"expectedPods": 7}})
    assert created.get("status", {}).get("expectedPods", 0) == 0
    changed: Manifest = {
        **budget,
        "spec": {**budget["spec"], "maxUnavailable": 2},
        "status": {**status, "expectedPods": 9},
    }
    changed["status"] |= {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0}
    found = await client.apply_status(changed, field_manager="tuner")
    assert found["spec"]["maxUnavailable"] == 1
    assert "Tuned" in {condition["type"] for condition in found["status"]["conditions"]}
    assert found["metadata"]["generation"] == created["metadata"]["generation"]
    kept = await client.apply(budget)
    assert "Tuned" in {condition["type"] for condition in kept["status"]["conditions"]}


@case
async def status_of_what_is_gone_is_not_found(client: KubeClient, namespace: str) -> None:
    with pytest.raises(NotFound) as refused:
        await client.apply_status({**deployment(namespace, "gone"), "status": {"replicas": 1}})
    assert not isinstance(refused.value, NotServed)


@case
async def apply_with_a_uid_changes_only_that_object(client: KubeClient, namespace: str) -> None:
    with pytest.raises(Conflict):
        await client.apply(config_map(namespace, "reborn", uid="6f7c1d0e-0000-4000-8000-000000000000"))
    assert await client.get(r.CONFIG_MAP, namespace, "reborn") is None
    first = await client.apply(config_map(namespace))
    uid = first["metadata"]["uid"]
    await client.apply(config_map(namespace, data={"delay": "6"}, uid=uid))
    with pytest.raises(Conflict):
        await client.apply(config_map(namespace, uid="6f7c1d0e-0000-4000-8000-000000000000"))


@case
async def create_refuses_what_exists(client: KubeClient, namespace: str) -> None:
    await client.create(config_map(namespace))
    with pytest.raises(AlreadyExists):
        await client.create(config_map(namespace))


@case
async def replace_needs_the_version_that_is_stored(client: KubeClient, namespace: str) -> None:
    created = await client.create(config_map(namespace))
    replaced = await client.replace({**created, "data": {"delay": "6"}})
    assert replaced["data"] == {"delay": "6"}
    with pytest.raises(Conflict):
        await client.replace({**created, "data": {"delay": "7"}})
    with pytest.raises(Invalid):
        await client.replace(config_map(namespace))
    with pytest.raises((NotFound, Conflict)):
        await client.replace({**replaced, "metadata": {**replaced["metadata"], "name": "other"}})


@case
async def delete_says_whether_it_was_there(client: KubeClient, namespace: str) -> None:
    await client.apply(config_map(namespace))
    assert await client.delete(r.CONFIG_MAP, namespace, "settings")
    assert not await client.delete(r.CONFIG_MAP, namespace, "settings")
    assert await client.get(r.CONFIG_MAP, namespace, "settings") is None


@case
async def delete_with_a_uid_spares_its_namesake(client: KubeClient, namespace: str) -> None:
    old = (await client.apply(config_map(namespace)))["metadata"]["uid"]
    await client.delete(r.CONFIG_MAP, namespace, "settings")
    new = (await client.apply(config_map(namespace)))["metadata"]["uid"]
    assert not await client.delete(r.CONFIG_MAP, namespace, "settings", uid=old)
    assert await client.delete(r.CONFIG_MAP, namespace, "settings", uid=new)


@case
async def a_finalizer_holds_the_object_until_it_is_removed(client: KubeClient, namespace: str) -> None:
    await client.apply(config_map(namespace, finalizers=["triton-llm.dev/hold"]))
    assert await client.delete(r.CONFIG_MAP, namespace, "settings")
    held = await client.get(r.CONFIG_MAP, namespace, "settings")
    assert held is not None
    assert held["metadata"]["deletionTimestamp"]
    await client.apply(config_map(namespace))
    assert await client.get(r.CONFIG_MAP, namespace, "settings") is None


@case
async def children_go_with_their_owner(client: KubeClient, namespace: str) -> None:
    owner = await client.apply(config_map(namespace, "owner"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    await client.apply(config_map(namespace, "child", ownerReferences=[reference]))
    await client.apply(config_map(namespace, "stranger"))
    await client.delete(r.CONFIG_MAP, namespace, "owner")

    async def gone() -> bool:
        return await client.get(r.CONFIG_MAP, namespace, "child") is None

    await eventually(gone)
    assert await client.get(r.CONFIG_MAP, namespace, "stranger") is not None


@case
async def lists_are_sorted_selected_and_say_what_they_hold(client: KubeClient, namespace: str) -> None:
    for name, tier in (("b", "gold"), ("c", "iron"), ("a", "gold")):
        await client.apply(config_map(namespace, name, labels={"tier": tier, "app": "llm"}))
    gold = await client.list(r.CONFIG_MAP, namespace, labels={"tier": "gold", "app": "llm"})
    assert [item["metadata"]["name"] for item in gold] == ["a", "b"]
    assert {(item["apiVersion"], item["kind"]) for item in gold} == {("v1", "ConfigMap")}
    everywhere = await client.list(r.CONFIG_MAP, labels={"tier": "iron"})
    assert (namespace, "c") in {(i["metadata"]["namespace"], i["metadata"]["name"]) for i in everywhere}
    by_field = await client.list(r.CONFIG_MAP, namespace, field_selector="metadata.name=c")
    assert [item["metadata"]["name"] for item in by_field] == ["c"]


@case
async def nothing_is_made_in_a_namespace_that_is_missing(client: KubeClient, namespace: str) -> None:
    with pytest.raises(NotFound, match="missing") as refused:
        await client.apply(config_map("missing"))
    assert not isinstance(refused.value, NotServed)


@case
async def nothing_is_made_in_a_namespace_that_is_dying(client: KubeClient, namespace: str) -> None:
    dying = f"{namespace}-dying"
    await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": dying}})
    held = config_map(dying, finalizers=["triton-llm.dev/hold"])
    await client.apply(held)
    await client.delete(r.NAMESPACE, None, dying)

    async def refuses() -> bool:
        try:
            await client.apply(config_map(dying, "late"))
        except NamespaceTerminating:
            return True
        return False

    await eventually(refuses)
    changed = await client.apply({**held, "data": {"still": "writable"}})
    assert changed["data"] == {"still": "writable"}
    await client.apply(config_map(dying))  # gives the finalizer up


@case
async def a_wrong_object_is_invalid_and_says_where(client: KubeClient, namespace: str) -> None:
    with pytest.raises(Invalid) as refused:
        await client.apply(config_map(namespace, "Not_A_Name"))
    assert refused.value.details["causes"][0]["field"] == "metadata.name"


@case
async def a_resource_that_is_not_served_is_told_apart(client: KubeClient, namespace: str) -> None:
    assert await client.served(r.DEPLOYMENT)
    assert not await client.served(r.SCALED_OBJECT)
    with pytest.raises(NotServed):
        await client.get(r.SCALED_OBJECT, namespace, "chat")
    with pytest.raises(NotServed):
        await client.list(r.SCALED_OBJECT, namespace)
    with pytest.raises(NotServed):
        await client.delete(r.SCALED_OBJECT, namespace, "chat")
    metadata = {"name": "chat", "namespace": namespace}
    with pytest.raises(NotServed):
        await client.apply({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": metadata})


@case
async def the_version_is_two_numbers(client: KubeClient, namespace: str) -> None:
    major, minor = await client.server_version()
    assert (major, minor) >= (1, 30)


@case
async def logs_of_a_missing_pod_are_an_error(client: KubeClient, namespace: str) -> None:
    with pytest.raises(NotFound):
        await client.logs(namespace, "missing", "triton", tail_lines=10)


@case
async def what_was_applied_needs_no_apply(client: KubeClient, namespace: str) -> None:
    budget: Manifest = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "chat", "namespace": namespace, "annotations": {}},
        "spec": {"maxUnavailable": "50%", "selector": {"matchLabels": {"a": "b"}}},
    }
    account: Manifest = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "chat", "namespace": namespace},
        "automountServiceAccountToken": False,
        "imagePullSecrets": [],
    }
    policy: Manifest = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "chat", "namespace": namespace},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"ports": [{"port": 8000}]}, {}]},
    }
    secret: Manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "chat-triton", "namespace": namespace},
        "type": "Opaque",
        "data": {"token": "w6Qgc2VjcmV0"},
    }
    manifests: list[Manifest] = [config_map(namespace), deployment(namespace), service(namespace)]
    for desired in (*manifests, budget, account, policy, secret):
        applied = await client.apply(stamp(desired))
        live = await client.get(r.Resource.of(desired), namespace, desired["metadata"]["name"])
        for found in (applied, live):
            assert found is not None
            assert differing(desired, found) == [], desired["kind"]
            assert not needs_apply(desired, found), desired["kind"]


@case
async def what_another_changed_needs_apply(client: KubeClient, namespace: str) -> None:
    desired = deployment(namespace)
    await client.apply(stamp(desired))
    await client.apply(deployment(namespace, image="tampered:1"), field_manager="other")
    live = await client.get(r.DEPLOYMENT, namespace, "chat")
    assert live is not None
    assert differing(desired, live) == ["spec.template.spec.containers[triton].image"]
    repaired = await client.apply(stamp(desired))
    assert not needs_apply(desired, repaired)


@case
async def every_refusal_is_a_kube_error_with_a_status(client: KubeClient, namespace: str) -> None:
    with pytest.raises(KubeError) as refused:
        await client.apply(config_map("missing"))
    assert (refused.value.status, refused.value.reason) == (404, "NotFound")
