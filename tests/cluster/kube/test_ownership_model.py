"""The fake's model of field ownership against the real one: the same random life of an object, the same outcome."""

from __future__ import annotations

import random
from typing import Any

import pytest

from llmservice.kube.client import KubeClient
from llmservice.kube.errors import Conflict
from llmservice.kube.fake import FakeKube
from llmservice.kube.real import RealKube
from llmservice.kube.resources import DEPLOYMENT, Manifest

pytestmark = pytest.mark.cluster

MANAGERS = ("ours", "theirs", "third")


def step(dice: random.Random, namespace: str) -> tuple[Manifest, str, bool]:
    """What one manager says about a Deployment, and whether by force. It never says `{}` or `[]`: the fake does not
    model who owns a map or list that the API server dropped because it was empty.
    """

    def some(mapping: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in mapping.items() if dice.random() < 0.5 and value not in ({}, [])}

    def text() -> str:
        return dice.choice(["1", "2"])

    env = [{"name": name, "value": text()} for name in "ABC" if dice.random() < 0.5]
    ports = [{"containerPort": port, **some({"name": f"p{port}"})} for port in (80, 81) if dice.random() < 0.5]
    container = {"name": "triton", "image": "triton:1", **some({"args": [text()], "env": env, "ports": ports})}
    metadata = some({"labels": some({"a": text(), "b": text()}), "annotations": some({"c": text()})})
    labels = {"app": "chat"}
    pod = {"containers": [container], **some({"nodeSelector": some({"x": text(), "y": text()})})}
    spec = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
        **some({"replicas": 0, "paused": True, "minReadySeconds": dice.choice([1, 2])}),
    }
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "chat", "namespace": namespace, **metadata},
        "spec": spec,
    }
    return manifest, dice.choice(MANAGERS), dice.random() < 0.6


async def live(client: KubeClient, script: list[tuple[Manifest, str, bool]], namespace: str) -> list[Any]:
    """The outcome of every step: what the managers own, and the values they wrote."""
    outcomes: list[Any] = []
    for manifest, manager, force in script:
        try:
            found = await client.apply(manifest, field_manager=manager, force=force)
        except Conflict as refused:
            outcomes.append(sorted(cause["field"] for cause in refused.details["causes"]))
            continue
        outcomes.append(said(found))
    await client.delete(DEPLOYMENT, namespace, "chat")
    return outcomes


def said(found: Manifest) -> dict[str, Any]:
    pod = found["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    owners = {e["manager"]: e["fieldsV1"] for e in found["metadata"]["managedFields"] if e["manager"] in MANAGERS}
    annotations = {k: v for k, v in found["metadata"].get("annotations", {}).items() if "/" not in k}
    return {
        "owners": owners,
        "labels": found["metadata"].get("labels", {}),
        "annotations": annotations,
        "node selector": pod.get("nodeSelector", {}),
        "args": container.get("args", []),
        "env": {item["name"]: item.get("value", "") for item in container.get("env", [])},
        "ports": {item["containerPort"]: item.get("name") for item in container.get("ports", [])},
        "paused": found["spec"].get("paused", False),
        "minReadySeconds": found["spec"].get("minReadySeconds", 0),
    }


@pytest.mark.parametrize("seed", range(12))
async def test_the_same_life_leaves_the_same_fields_to_the_same_owners(
    seed: int, client: RealKube, namespace: str
) -> None:
    dice = random.Random(seed)
    script = [step(dice, namespace) for _ in range(15)]
    assert await live(FakeKube(namespaces=[namespace]), script, namespace) == await live(client, script, namespace)
