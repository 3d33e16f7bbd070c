"""Pods of the project's images on the embedded cluster's node."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster import images, serving
from cluster.settings import Settings, from_environment
from tests.cluster_fixtures import Kubectl

RESTRICTED = {
    "readOnlyRootFilesystem": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
}
Run = Callable[..., None]


@pytest.fixture(scope="session")
def settings(kubeconfig: Path) -> Settings:
    """The settings of the cluster that is up."""
    return from_environment()


@pytest.fixture(scope="session")
def load(settings: Settings) -> Callable[[str], str]:
    """Builds an image where its inputs changed, gives it to the cluster, and returns its tag."""

    def put(name: str) -> str:
        images.load(settings, name)
        return images.IMAGES[name].tag

    return put


@pytest.fixture(scope="session")
def packages(settings: Settings) -> Path:
    """The folder with torch that pods mount."""
    return serving.folder(settings)


@pytest.fixture
def run(kubectl: Kubectl, namespace: str) -> Run:
    """Starts a pod under the strictest security settings."""

    def start(name: str, container: dict[str, Any], volumes: list[dict[str, Any]], restart: str = "Never") -> None:
        scratch = {"name": "scratch", "emptyDir": {}}
        mounts = [*container.pop("volumeMounts", []), {"name": "scratch", "mountPath": "/tmp"}]
        base = {"name": "main", "imagePullPolicy": "Never", "securityContext": RESTRICTED, "volumeMounts": mounts}
        spec = {
            "restartPolicy": restart,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "containers": [{**base, **container}],
            "volumes": [scratch, *volumes],
        }
        metadata = {"name": name, "namespace": namespace, "labels": {"app": name}}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        kubectl("apply", "-f", "-", text=json.dumps(pod))

    return start
