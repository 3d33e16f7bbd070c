"""What only a real API server can answer: unknown fields, wrong credentials, default fields of pods and their logs."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from llmservice.kube.errors import Forbidden, Invalid
from llmservice.kube.real import RealKube, connect
from llmservice.kube.requests import Answered
from llmservice.kube.resources import CONFIG_MAP, POD, Manifest
from tests.kube_contract.manifests import config_map, deployment

pytestmark = pytest.mark.cluster


async def test_a_field_that_the_api_server_does_not_know_is_refused_and_named(client: RealKube, namespace: str) -> None:
    manifest = deployment(namespace)
    manifest["spec"]["template"]["spec"]["containers"][0]["gpus"] = 1
    with pytest.raises(Invalid, match="gpus"):
        await client.apply(manifest)


async def test_a_status_keeps_what_is_known_of_it(client: RealKube, namespace: str) -> None:
    await client.apply(deployment(namespace))
    condition = {"type": "Tuned", "status": "True", "new": 1}
    status = {"collisionCount": 3, "tokens": 5, "queue": {"depth": 1}, "conditions": [condition]}
    found = await client.apply_status({**deployment(namespace), "status": status})
    assert found["status"]["collisionCount"] == 3
    assert not {"tokens", "queue"} & set(found["status"])
    assert "new" not in found["status"]["conditions"][0]


async def test_a_container_that_has_not_started_has_no_log(client: RealKube, namespace: str) -> None:
    container = {"name": "triton", "image": "triton:1"}
    metadata = {"name": "chat-0", "namespace": namespace}
    spec = {"containers": [container], "nodeSelector": {"nowhere": "yes"}, "automountServiceAccountToken": False}
    await client.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {**metadata, "name": "chat"}})
    pod: Manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**spec, "serviceAccount": "chat"},
    }
    await client.create(pod)
    with pytest.raises(Invalid):
        await client.logs(namespace, "chat-0", "missing", tail_lines=1)
    assert await client.logs(namespace, "chat-0", "triton", tail_lines=1) == ""
    assert await client.delete(POD, namespace, "chat-0")


@pytest.fixture
def wrong(kubeconfig: Path, tmp_path: Path) -> Path:
    config = yaml.safe_load(Path(kubeconfig).read_text())
    for user in config["users"]:
        user["user"] = {"token": "wrong"}
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


async def test_wrong_credentials_are_forbidden_and_every_attempt_is_counted(wrong: Path) -> None:
    answers: list[Answered] = []
    client = await connect(wrong, on_answer=answers.append)
    with pytest.raises(Forbidden) as refused:
        await client.apply(config_map("default"))
    await client.close()
    assert refused.value.status == 401
    assert [(a.verb, a.resource, a.status) for a in answers] == [("apply", CONFIG_MAP.plural, 401)] * 2
