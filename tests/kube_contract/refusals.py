"""What is refused says why, by its type."""

from __future__ import annotations

import pytest

from llmservice.kube import resources as r
from llmservice.kube.client import KubeClient
from llmservice.kube.errors import (
    Invalid,
    KubeError,
    NamespaceTerminating,
    NotFound,
    NotServed,
)
from tests.kube_contract.manifests import config_map, deployment, eventually
from tests.kube_contract.registry import case


@case
async def status_of_what_is_gone_is_not_found(client: KubeClient, namespace: str) -> None:
    with pytest.raises(NotFound) as refused:
        await client.apply_status({**deployment(namespace, "gone"), "status": {"replicas": 1}})
    assert not isinstance(refused.value, NotServed)


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
async def logs_of_a_missing_pod_are_an_error(client: KubeClient, namespace: str) -> None:
    with pytest.raises(NotFound):
        await client.logs(namespace, "missing", "triton", tail_lines=10)


@case
async def every_refusal_is_a_kube_error_with_a_status(client: KubeClient, namespace: str) -> None:
    with pytest.raises(KubeError) as refused:
        await client.apply(config_map("missing"))
    assert (refused.value.status, refused.value.reason) == (404, "NotFound")
