"""A real API server with the CRD and the policy of this checkout, in force in one namespace of the tests."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final
from uuid import uuid4

import pytest

from cluster.settings import from_environment
from llmservice.capacity.admission import NAME, capacity_binding, capacity_policy
from tests.cluster.api.conftest import DEADLINE_S, ROOT, Kubectl
from tests.cluster_fixtures import wait_established

CRD: Final = "crds/llmservices.yaml"


def service(**spec: Any) -> dict[str, Any]:
    """A manifest on vLLM; `spec` and `annotations` override its parts."""
    annotations = spec.pop("annotations", {})
    repo = spec.pop("repo", "meta-llama/Llama-3.1-8B-Instruct")
    model = {"source": {"huggingFace": {"repo": repo}}, **spec.pop("model", {})}
    return {
        "apiVersion": "triton-llm.dev/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": "chat", "annotations": annotations},
        "spec": {"model": model, "engine": {"backend": "vllm"}, "placement": {"pool": "a100-80gb"}, **spec},
    }


@pytest.fixture(scope="session")
def refusing() -> Iterator[Kubectl]:
    """kubectl, with the policy in force in its namespace and in no other."""
    settings = from_environment()
    kubectl = Kubectl(settings.bin / "kubectl", settings.kubeconfig, f"capacity-tests-{uuid4().hex[:8]}")
    found = kubectl("get", "crd", "llmservices.triton-llm.dev").returncode == 0
    kubectl.must("apply", "--server-side", "--force-conflicts", "-f", str(ROOT / CRD))
    wait_established(kubectl.must, "llmservices.triton-llm.dev", "LLMService")
    kubectl.must("create", "namespace", kubectl.namespace)
    named = f"{NAME}.{kubectl.namespace}"
    policy, binding = capacity_policy(), capacity_binding()
    policy["metadata"]["name"] = binding["metadata"]["name"] = binding["spec"]["policyName"] = named
    binding["spec"]["matchResources"] = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": kubectl.namespace}}
    }
    kubectl.must("apply", "-f", "-", document=policy)
    kubectl.must("apply", "-f", "-", document=binding)
    deadline = time.monotonic() + DEADLINE_S
    while kubectl.dry_run(service(model={"maxLength": 10_000_000})).returncode == 0:
        assert time.monotonic() < deadline, "the policy never refused"
    yield kubectl
    kubectl.must("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", named)
    kubectl.must("delete", "namespace", kubectl.namespace, "--wait=false")
    if not found:
        kubectl.must("delete", "-f", str(ROOT / CRD))
