"""The role that the chart gives is enough for the whole life of a service: the API server refuses nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from cluster import binaries
from cluster.settings import from_environment
from tests.cluster.operator.conftest import Apply, Find, Start
from tests.cluster.operator.operator_process import eventually
from tests.cluster.operator.test_operator import make_pods_ready, names, reported
from tests.cluster_fixtures import Kubectl

pytestmark = pytest.mark.cluster

CHART = Path(__file__).parents[3] / "charts" / "llmservice-operator"


@pytest.fixture
def credentials(kubeconfig: Path, kubectl: Kubectl, namespace: str, tmp_path: Path) -> Path:
    """A kubeconfig of the chart's ServiceAccount, with the chart's role for one namespace."""
    settings = from_environment()
    binaries.ensure(settings, ("helm",))
    release = f"role-{namespace}"
    rendered = subprocess.run(
        [
            settings.bin / "helm", "template", release, str(CHART), "-n", namespace, "-s", "templates/rbac.yaml",
            "--kube-version", "1.34.4", "--set", f"scope.namespaces={{{namespace}}}",
            "--set", "serviceAccount.name=operator",
        ],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    kubectl("apply", "-f", "-", text=rendered.stdout)
    config = yaml.safe_load(kubeconfig.read_text())
    token = kubectl("-n", namespace, "create", "token", "operator").strip()
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def test_the_chart_s_role_is_enough(
    start: Start, apply: Apply, find: Find, kubectl: Kubectl, namespace: str, credentials: Path
) -> None:
    operator = start("a", credentials)
    eventually(operator.is_ready, "the operator may look at the cluster")
    apply()
    eventually(reported(find, "Ready", "Unschedulable"), "children may be made")
    make_pods_ready(kubectl, namespace, find)
    eventually(reported(find, "Ready", "Serving"), "pods may be read")
    kubectl("-n", namespace, "autoscale", "llmservice", "chat", "--min=1", "--max=3")
    apply(engine={"image": "registry.example/triton:2"})
    eventually(lambda: find("llmservice", "chat")["spec"].get("replicas") == 1, "the service may be seeded")
    eventually(lambda: len(names(find, "deployments")) == 2, "another revision may be made")
    refused = [line for line in operator.page("/metrics").splitlines() if 'status="403"' in line]
    assert refused == []
    assert [line for line in operator.log() if line["level"] == "ERROR"] == []
