"""Fixtures over the fixture `kubeconfig`, which each tier of tests defines for itself."""

from __future__ import annotations

import json
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster import contexts
from cluster.settings import from_environment

Kubectl = Callable[..., str]


def wait_established(kubectl: Callable[..., object], name: str, kind: str) -> None:
    """Returns once the API server serves the CRD `name`.

    In two steps: `kubectl wait` ends with an error where it looks for a condition in a CRD so new that it has none, and
    the first that it gets comes with its accepted names.
    """
    for path in (f"acceptedNames.kind}}={kind}", 'conditions[?(@.type=="Established")].status}=True'):
        kubectl("wait", f"--for=jsonpath={{.status.{path}", f"crd/{name}", "--timeout=60s")


def wait_gone(kubectl: Callable[..., str], selector: str, seconds: float = 150.0) -> None:
    """Returns once no namespace has a pod of `selector`, or raises TimeoutError.

    A pod on a node that is not ready is removed at once: nobody there would say that it has ended. Such are left where
    a machine with a whole cluster was restarted and only its API server was started since (a node counts as not ready
    some 50 s after that).
    """
    deadline = time.monotonic() + seconds
    while pods := _items(kubectl, "pods", "-A", "-l", selector):
        if time.monotonic() > deadline:
            raise TimeoutError(f"pods of {selector} are still there: {[pod['metadata']['name'] for pod in pods]}")
        ready = {node["metadata"]["name"] for node in _items(kubectl, "nodes") if _is_ready(node)}
        for pod in pods:
            metadata = pod["metadata"]
            if "deletionTimestamp" in metadata and pod["spec"].get("nodeName") not in ready:
                where = ("-n", metadata["namespace"], "pod", metadata["name"])
                kubectl("delete", *where, "--force", "--grace-period=0", "--ignore-not-found")
        time.sleep(1.0)


def _items(kubectl: Callable[..., str], *what: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(kubectl("get", *what, "-o", "json"))["items"]
    return found


def _is_ready(node: dict[str, Any]) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"]["conditions"])


@pytest.fixture(scope="session")
def kubectl(kubeconfig: Path) -> Kubectl:
    """Runs kubectl with some arguments and `text` on its standard input, and gives what it prints."""
    program = contexts.kubectl(from_environment())

    def run(*arguments: str, text: str = "") -> str:
        command = [program, "--kubeconfig", str(kubeconfig), *arguments]
        result = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False)
        assert result.returncode == 0, f"kubectl {' '.join(arguments)}: {result.stderr}"
        return result.stdout

    return run


@pytest.fixture
def namespace(kubectl: Kubectl) -> Iterator[str]:
    """A fresh namespace, removed after the test (its contents go in the background)."""
    name = f"test-{uuid.uuid4().hex[:10]}"
    kubectl("create", "namespace", name)
    yield name
    kubectl("delete", "namespace", name, "--wait=false")
