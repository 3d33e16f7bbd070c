"""Server-side apply: who owns which field, and what that means for the next apply."""

from __future__ import annotations

import pytest

from llmservice.kube import resources as r
from llmservice.kube.client import KubeClient
from llmservice.kube.differs import differing, needs_apply, stamp
from llmservice.kube.errors import (
    Conflict,
)
from llmservice.kube.resources import Manifest
from tests.kube_contract.manifests import NOON, config_map, deployment, service
from tests.kube_contract.registry import case


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
