"""Objects come, are found, change and go."""

from __future__ import annotations

import pytest

from llmservice.kube import resources as r
from llmservice.kube.client import KubeClient
from llmservice.kube.errors import (
    AlreadyExists,
    Conflict,
    Invalid,
    NotFound,
)
from tests.kube_contract.manifests import config_map, eventually
from tests.kube_contract.registry import case


@case
async def what_is_not_there_reads_as_none(client: KubeClient, namespace: str) -> None:
    assert await client.get(r.CONFIG_MAP, namespace, "missing") is None
    assert await client.get(r.NAMESPACE, None, "missing") is None
    assert await client.list(r.CONFIG_MAP, "missing") == []


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
async def the_version_is_two_numbers(client: KubeClient, namespace: str) -> None:
    major, minor = await client.server_version()
    assert (major, minor) >= (1, 30)
