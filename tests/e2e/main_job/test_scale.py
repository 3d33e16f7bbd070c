"""Replicas by `kubectl scale`, and by whoever else speaks /scale."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.main_job.conftest import Started
from tests.e2e.main_job.kube import Kube, Manifest, Service, condition
from tests.e2e.main_job.waiting import eventually

pytestmark = pytest.mark.e2e


@pytest.fixture
def service(smollm2: Started) -> Iterator[Service]:
    """The service, with one replica before and after."""
    yield smollm2.service
    smollm2.service.patch({"replicas": 1})
    smollm2.service.wait_serving()
    eventually(lambda: len(smollm2.service.pods()) == 1, "one pod is left", 60)


def test_two_replicas_and_back_to_one(service: Service, kube: Kube) -> None:
    kube("-n", service.namespace, "scale", "llm", service.name, "--replicas=2")
    service.wait_serving("2/2")
    eventually(lambda: len(service.addresses()) == 2, "the Service leads to both", 60)
    assert set(service.addresses()) == {pod["status"]["podIP"] for pod in service.pods()}
    kube("-n", service.namespace, "scale", "llm", service.name, "--replicas=1")
    service.wait_serving("1/1", seconds=60)
    eventually(lambda: len(service.addresses()) == 1, "the Service leads to the one that stays", 60)


def test_an_autoscaler_reads_the_scale(service: Service, kube: Kube) -> None:
    target = {"apiVersion": "triton-llm.dev/v1alpha1", "kind": "LLMService", "name": service.name}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}
    metric["resource"]["target"]["averageUtilization"] = 95  # type: ignore[index]
    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "chat", "namespace": service.namespace},
        "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 2, "metrics": [metric]},
    }
    kube.apply(scaler)

    def able() -> Manifest:
        return condition(kube.get("hpa", service.namespace, "chat").get("status") or {}, "AbleToScale")

    eventually(lambda: able().get("status") == "True", "the autoscaler reads /scale", 60)
    assert able()["reason"] in {"SucceededGetScale", "ReadyForNewScale"}
    eventually(lambda: service.manifest()["spec"].get("replicas") == 1, "replicas are seeded for the autoscaler", 60)
    scale = kube("-n", service.namespace, "get", "--raw", scale_path(service))
    assert '"selector":"app.kubernetes.io/instance=smollm2' in scale
    kube("-n", service.namespace, "delete", "hpa", "chat")


def scale_path(service: Service) -> str:
    return f"/apis/triton-llm.dev/v1alpha1/namespaces/{service.namespace}/llmservices/{service.name}/scale"
