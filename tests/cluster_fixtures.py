"""Fixtures over the fixture `kubeconfig`, which each tier of tests defines for itself."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

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
