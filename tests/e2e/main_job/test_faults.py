"""What keeps a service from serving is named: the cause, in the words of whoever refused, and what to do."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster import ports, simulated
from cluster.settings import Settings
from tests.e2e.main_job.conftest import NewSpace
from tests.e2e.main_job.faults import FAULTS, Fault, manifest
from tests.e2e.main_job.kube import Kube, Manifest, Service
from tests.e2e.main_job.waiting import eventually

pytestmark = pytest.mark.e2e

POOL = "a100-80gb"


@pytest.fixture(scope="module")
def broken_folder() -> Iterator[str]:
    """A folder that looks like a model and holds none; readable by the pod's user."""
    folder = Path(tempfile.mkdtemp(prefix="broken-model-"))
    folder.chmod(0o755)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "vocab_size": 256}
    config |= {"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    config |= {"num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "eos_token_id": 2}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(b"these are no weights")
    yield str(folder)
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def space(kube: Kube, new_space: NewSpace, broken_folder: str) -> str:
    """A namespace with every faulty service in it, made at once: their failures take the same time."""
    namespace = new_space("faults")
    kube.apply(foreign_service(namespace))
    for fault in FAULTS:
        kube.apply(manifest(fault, namespace, broken_folder))
    return namespace


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_reason_is_named(fault: Fault, kube: Kube, space: str) -> None:
    service = Service(kube, space, fault.name)
    ready = eventually(lambda: blocked(service, fault.reason), f"{fault.name}: {fault.reason}", 100)
    for words in fault.says:
        assert words in ready["message"]
    status = service.status()
    assert status["summary"] == fault.reason
    assert status["replicasSummary"] == "0/1"
    if fault.reason == "NameConflict":
        found = kube.get("service", space, fault.name)
        assert found["spec"]["ports"] == foreign_service(space)["spec"]["ports"]
        assert "ownerReferences" not in found["metadata"]
        assert "app.kubernetes.io/managed-by" not in found["metadata"].get("labels", {})
    if fault.reason != "WaitingForGPU":  # the test below goes on with it
        service.delete()


def test_a_new_gpu_node_ends_the_wait(kube: Kube, space: str, settings: Settings) -> None:
    service = Service(kube, space, "no-node-has-a-gpu")
    eventually(lambda: blocked(service, "WaitingForGPU"), "it waits", 60)
    api = simulated.running_api(settings, ports.read(settings))
    simulated.add(api, POOL, 1, 1, tainted=False)
    try:
        eventually(lambda: [pod for pod in service.pods() if pod["spec"].get("nodeName")], "the pod has a node", 60)
        eventually(lambda: service.condition("Ready")["reason"] != "WaitingForGPU", "the wait is over", 60)
        more = {**example_of(service), "metadata": {"name": "one-too-many", "namespace": space}}
        kube.apply(more)
        second = Service(kube, space, "one-too-many")
        ready = eventually(lambda: blocked(second, "WaitingForGPU"), "the only GPU is taken", 60)
        assert "1 replica waits: no node has 1 nvidia.com/gpu free" in ready["message"]
        assert "Insufficient nvidia.com/gpu" in ready["message"]
        second.delete()
    finally:
        service.delete()
        simulated.remove(api, POOL)


def test_a_quota_is_named(kube: Kube, new_space: NewSpace, broken_folder: str) -> None:
    namespace = new_space("quota")
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none", "namespace": namespace}}
    kube.apply({**quota, "spec": {"hard": {"pods": "0"}}})
    eventually(lambda: kube.get("resourcequota", namespace, "none").get("status", {}).get("hard"), "it holds", 30)
    fault = Fault("quota", "QuotaExceeded", (), {})
    kube.apply(manifest(fault, namespace, broken_folder))
    service = Service(kube, namespace, "quota")
    ready = eventually(lambda: blocked(service, "QuotaExceeded"), "the quota is named", 60)
    assert "exceeded quota: none" in ready["message"]
    service.delete()


def test_a_corrected_spec_serves(kube: Kube, new_space: NewSpace, broken_folder: str) -> None:
    namespace = new_space("corrected")
    fault = next(fault for fault in FAULTS if fault.reason == "ImagePullFailed")
    kube.apply(manifest(fault, namespace, broken_folder))
    service = Service(kube, namespace, fault.name)
    eventually(lambda: blocked(service, "ImagePullFailed"), "the image is missing", 60)
    service.patch({"engine": {"image": None}})
    service.wait_serving()
    assert service.condition("Degraded")["status"] == "False"
    service.delete()


def blocked(service: Service, reason: str) -> Manifest:
    """The condition Ready where it is false for `reason`."""
    ready = service.condition("Ready")
    return ready if (ready.get("status"), ready.get("reason")) == ("False", reason) else {}


def example_of(service: Service) -> Manifest:
    found = service.manifest()
    return {key: found[key] for key in ("apiVersion", "kind", "spec")}


def foreign_service(namespace: str) -> dict[str, Any]:
    """A Service of somebody else, with the name of a child."""
    metadata = {"name": "the-name-is-taken", "namespace": namespace}
    ports = [{"name": "web", "port": 80, "protocol": "TCP", "targetPort": 8080}]
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": ports}}
