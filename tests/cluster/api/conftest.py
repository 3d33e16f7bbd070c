"""A real API server with the project's CRD and warning policy, and a namespace of our own."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest
import yaml
from kubernetes import client, config

from cluster.settings import from_environment
from llmservice.api.service import GROUP, PLURAL, VERSION
from tests.cluster_fixtures import wait_established
from tests.rule_cases import manifest

ROOT: Final = Path(__file__).parents[3]
DEADLINE_S: Final = 30

Refusal = Callable[[dict[str, Any]], str]
"""Gives what the API server says against a manifest; empty when it takes it. Nothing is stored."""


class Kubectl:
    """kubectl against the test cluster, in a namespace of the tests."""

    def __init__(self, binary: Path, kubeconfig: Path, namespace: str) -> None:
        context = yaml.safe_load(kubeconfig.read_text())["current-context"]
        assert "test" in context, f"{context} is not a test cluster: these tests refuse to touch it"
        self.namespace = namespace
        self._command = [str(binary), "--kubeconfig", str(kubeconfig), "--namespace", namespace]

    def __call__(self, *arguments: str, document: Any = None) -> subprocess.CompletedProcess[str]:
        """Runs kubectl with `document` as JSON on its standard input, and gives what it said."""
        text = None if document is None else json.dumps(document)
        return subprocess.run(
            [*self._command, *arguments], input=text, capture_output=True, text=True, timeout=60, check=False
        )

    def must(self, *arguments: str, document: Any = None) -> str:
        """As a call, but a failure fails the test. Gives standard output."""
        result = self(*arguments, document=document)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def dry_run(self, manifest: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        """`kubectl apply` that the API server judges and does not store."""
        return self("apply", "--dry-run=server", "-o", "json", "-f", "-", document=manifest)


@pytest.fixture(scope="session")
def kubectl() -> Iterator[Kubectl]:
    """kubectl, with the CRD and the policy of this checkout. What was not there before is gone afterwards: helm
    installs nothing over objects that are not its own."""
    settings = from_environment()
    kubectl = Kubectl(settings.bin / "kubectl", settings.kubeconfig, f"api-tests-{uuid4().hex[:8]}")
    found = kubectl("get", "crd", "llmservices.triton-llm.dev").returncode == 0
    kubectl.must("apply", "--server-side", "--force-conflicts", "-f", str(ROOT / "crds"))
    wait_established(kubectl.must, "llmservices.triton-llm.dev", "LLMService")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": kubectl.namespace}}
    kubectl.must("apply", "-f", "-", document=namespace)
    yield kubectl
    kubectl.must("delete", "namespace", kubectl.namespace, "--wait=false")
    if not found:
        kubectl.must("delete", "-f", str(ROOT / "crds"))


@pytest.fixture(scope="session")
def policy(kubectl: Kubectl) -> Kubectl:
    """kubectl, with the policy in force: the API server takes a moment to load it."""
    deadline = time.monotonic() + DEADLINE_S
    while "Warning:" not in kubectl.dry_run(manifest({"replicas": 1, "scaling": {"maxReplicas": 2}})).stderr:
        assert time.monotonic() < deadline, "the policy never warned"
    return kubectl


@pytest.fixture(scope="session")
def refusal(kubectl: Kubectl) -> Iterator[Refusal]:
    """What the API server says against a manifest; empty when it takes it. Nothing is stored."""
    configuration = client.Configuration()
    path = str(from_environment().kubeconfig)
    config.load_kube_config(path, client_configuration=configuration)  # type: ignore[no-untyped-call]
    with client.ApiClient(configuration) as api_client:
        api = client.CustomObjectsApi(api_client)

        def refusal(document: dict[str, Any]) -> str:
            try:
                api.create_namespaced_custom_object(
                    GROUP, VERSION, kubectl.namespace, PLURAL, document, dry_run="All", field_validation="Strict"
                )
            except client.ApiException as error:
                return str(json.loads(error.body or "{}")["message"])
            return ""

        yield refusal
