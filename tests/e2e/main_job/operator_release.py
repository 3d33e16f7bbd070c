"""The operator, installed by its chart, and what a test looks at in it."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from dataclasses import dataclass

from cluster import images, values
from cluster.settings import REPOSITORY, Settings
from tests.e2e.main_job.kube import Kube, Manifest
from tests.e2e.main_job.waiting import eventually

RELEASE = "llmservice-operator"
NAMESPACE = "triton-llm"
CHART = "llmservice-operator-"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:{RELEASE}"
PODS = f"app.kubernetes.io/name={RELEASE}"
_REFUSED = re.compile(r"cannot \w+ resource")
_CALLS = re.compile(r"^llmservice_operator_api_requests_total\{(?P<labels>[^}]*)\} (?P<count>\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
WRITING = {"create", "replace", "apply", "delete"}


@dataclass(frozen=True)
class OperatorRelease:
    """The release of the chart. The operator is cluster-wide, so there is one."""

    kube: Kube
    settings: Settings

    def install(self, *options: str) -> None:
        """Installs or upgrades, and waits until the operator runs."""
        chart, file = str(REPOSITORY / "charts" / "llmservice-operator"), str(values.write(self.settings))
        command = ["upgrade", "--install", RELEASE, chart, "-n", NAMESPACE, "--create-namespace", "-f", file]
        self.kube.helm(*command, "--take-ownership", "--wait", "--timeout=120s", *options)

    def load_images(self) -> None:
        """Builds what changed and gives it to the cluster."""
        for name in images.IMAGES:
            images.load(self.settings, name)

    def uninstall_all(self) -> None:
        """Removes every release of the chart: two would undo each other's work."""
        for release in json.loads(self.kube.helm("list", "-A", "-o", "json")):
            if release["chart"].startswith(CHART):
                self.kube.helm("uninstall", release["name"], "-n", release["namespace"], "--wait", "--timeout=90s")
        self.kube("wait", "--for=delete", "pods", "-A", "-l", PODS, "--timeout=60s")

    def pods(self) -> list[Manifest]:
        """Its pods that are not on their way out."""
        found = self.kube.list("pods", NAMESPACE, PODS)
        return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]

    def scale(self, replicas: int) -> None:
        """Sets how many pods run, and waits until that is so."""
        self.kube("-n", NAMESPACE, "scale", f"deployment/{RELEASE}", f"--replicas={replicas}")
        if replicas:
            self.kube("-n", NAMESPACE, "rollout", "status", f"deployment/{RELEASE}", "--timeout=60s")
        else:
            self.kube("-n", NAMESPACE, "wait", "--for=delete", "pods", "-l", PODS, "--timeout=60s")

    def lease(self) -> Manifest:
        """What the Lease says: holderIdentity, leaseDurationSeconds, leaseTransitions."""
        spec: Manifest = self.kube.get("lease", NAMESPACE, RELEASE).get("spec") or {}
        return spec

    def leader(self) -> str:
        """The name of the pod that leads, once there is one among the running."""

        def holder() -> str:
            name = str(self.lease().get("holderIdentity") or "")
            return name if name in {pod["metadata"]["name"] for pod in self.pods()} else ""

        return eventually(holder, "a running operator pod holds the Lease", 60)

    def log(self) -> str:
        """The logs of all its pods since they began, the containers before a restart included."""
        texts = []
        for pod in self.pods():
            for options in ([], ["--previous"]):
                command = self.kube.command("kubectl", "-n", NAMESPACE, "logs", pod["metadata"]["name"], *options)
                texts.append(subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout)
        return "\n".join(texts)

    def refusals(self) -> list[str]:
        """Lines in which Kubernetes says that the operator lacks a permission."""
        return [line for line in self.log().splitlines() if _REFUSED.search(line)]

    def faults(self, namespace: str) -> list[str]:
        """Warnings and errors in the log that concern a namespace."""
        found = []
        for line in self.log().splitlines():
            said = json.loads(line) if line.startswith("{") else {}
            if said.get("level") in {"WARNING", "ERROR", "CRITICAL"} and namespace in line:
                found.append(line)
        return found

    def figure(self, pod: str, name: str) -> float:
        """One of the operator's metrics that has no labels."""
        found = re.search(rf"^llmservice_operator_{name} (\S+)$", self._metrics(pod), re.MULTILINE)
        return float(found.group(1)) if found else 0.0

    def writes(self, pod: str) -> dict[str, float]:
        """What one pod wrote so far, by verb and resource, its own Lease apart."""
        found: dict[str, float] = {}
        for call in _CALLS.finditer(self._metrics(pod)):
            labels = dict(_LABEL.findall(call["labels"]))
            if labels["verb"] in WRITING and labels["resource"] != "leases":
                key = f"{labels['verb']} {labels['resource']}"
                found[key] = found.get(key, 0.0) + float(call["count"])
        return found

    def _metrics(self, pod: str) -> str:
        with self.kube.forward(NAMESPACE, f"pod/{pod}", 8080) as (port,):
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                text: bytes = answer.read()
        return text.decode()
