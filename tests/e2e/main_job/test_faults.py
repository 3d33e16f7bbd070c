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
def space(kube: Kube, new_space: NewSpace, broken_folder: str) -> Iterator[str]:
    """A namespace with every faulty service in it, made at once: their failures take the same time."""
    namespace = new_space("faults")
    kube.apply(foreign_service(namespace))
    for fault in FAULTS:
        kube.apply(manifest(fault, namespace, broken_folder))
    yield namespace
    kube("-n", namespace, "delete", "llm", "--all")


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
    service.delete()


def test_a_new_gpu_node_ends_the_wait(kube: Kube, new_space: NewSpace, settings: Settings) -> None:
    namespace = new_space("gpu")
    first, second = (waits_for_gpu(kube, namespace, name) for name in ("first", "second"))
    eventually(lambda: blocked(first, "WaitingForGPU") and blocked(second, "WaitingForGPU"), "both wait", 60)
    api = simulated.running_api(settings, ports.read(settings))
    simulated.add(api, POOL, 1, 1, tainted=False)
    try:
        eventually(lambda: placed(first) or placed(second), "one pod has the new node", 60)
        lucky, waiting = (first, second) if placed(first) else (second, first)
        eventually(lambda: lucky.condition("Ready")["reason"] != "WaitingForGPU", "its wait is over", 60)
        ready = eventually(lambda: taken(waiting), "the other is told that the only GPU is taken", 150)
        assert "no node has 1 nvidia.com/gpu free" in ready["message"]
    finally:
        kube("-n", namespace, "delete", "llm", "--all")
        eventually(lambda: not first.pods() and not second.pods(), "their pods go", 60)
        simulated.remove(api, POOL)


def test_a_quota_is_named(kube: Kube, new_space: NewSpace, broken_folder: str) -> None:
    namespace = new_space("quota")
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none", "namespace": namespace}}
    kube.apply({**quota, "spec": {"hard": {"pods": "0"}}})
    eventually(lambda: kube.get("resourcequota", namespace, "none").get("status", {}).get("hard"), "it holds", 60)
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


def waits_for_gpu(kube: Kube, namespace: str, name: str) -> Service:
    """A service for a pool of which there is no node yet."""
    kube.apply(manifest(Fault(name, "WaitingForGPU", (), {"placement": {"pool": POOL}}), namespace, ""))
    return Service(kube, namespace, name)


def placed(service: Service) -> bool:
    return any(pod["spec"].get("nodeName") for pod in service.pods())


def taken(service: Service) -> Manifest:
    """The condition Ready, once the scheduler has looked at the pool's node, and the operator has counted it."""
    ready = blocked(service, "WaitingForGPU")
    counted = f"1 replica waits for 1 nvidia.com/gpu in pool {POOL} (0 of 1 free"
    said = ready.get("message", "")
    return ready if "Insufficient nvidia.com/gpu" in said and counted in said else {}


def foreign_service(namespace: str) -> dict[str, Any]:
    """A Service of somebody else, with the name of a child."""
    metadata = {"name": "the-name-is-taken", "namespace": namespace}
    ports = [{"name": "web", "port": 80, "protocol": "TCP", "targetPort": 8080}]
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": ports}}
