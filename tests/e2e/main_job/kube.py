"""What the tests do as a user of the cluster: kubectl, helm, and looks at one service."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.main_job.waiting import eventually

Manifest = dict[str, Any]
ROOT = Path(__file__).resolve().parents[3]
CHILD_KINDS = "deployments,replicasets,pods,services,configmaps,secrets,serviceaccounts,poddisruptionbudgets"


@dataclass(frozen=True)
class Kube:
    """kubectl and helm of the embedded cluster, as its administrator."""

    programs: Path
    kubeconfig: Path

    def command(self, program: str, *arguments: str) -> list[str]:
        """A command line that reaches this cluster and no other."""
        return [str(self.programs / program), "--kubeconfig", str(self.kubeconfig), *arguments]

    def __call__(self, *arguments: str, text: str = "", program: str = "kubectl") -> str:
        """What the command prints. Fails, with what it says, when it ends otherwise than well."""
        command = self.command(program, *arguments)
        result = subprocess.run(command, input=text, capture_output=True, text=True, timeout=240, check=False)
        assert result.returncode == 0, f"{program} {' '.join(arguments)}: {result.stderr}"
        return result.stdout

    def helm(self, *arguments: str) -> str:
        """Runs helm."""
        return self(*arguments, program="helm")

    def apply(self, manifest: Manifest) -> None:
        """Applies one object."""
        self("apply", "-f", "-", text=json.dumps(manifest))

    def get(self, kind: str, namespace: str, name: str) -> Manifest:
        """One object; empty when it is not there."""
        text = self("-n", namespace, "get", kind, name, "-o", "json", "--ignore-not-found")
        found: Manifest = json.loads(text or "{}")
        return found

    def list(self, kinds: str, namespace: str, selector: str = "") -> list[Manifest]:
        """Objects of some kinds, by label."""
        found: list[Manifest] = json.loads(self("-n", namespace, "get", kinds, "-l", selector, "-o", "json"))["items"]
        return found

    @contextmanager
    def forward(self, namespace: str, target: str, *ports: int) -> Iterator[tuple[int, ...]]:
        """Ports of 127.0.0.1, of kubectl's own choice, that lead to some ports of `target`, such as service/chat."""
        pairs = [f":{port}" for port in ports]
        command = self.command("kubectl", "-n", namespace, "port-forward", "--address=127.0.0.1", target, *pairs)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert process.stdout is not None
        with process:
            try:
                local = []
                for _ in ports:
                    said = process.stdout.readline()
                    found = re.match(r"Forwarding from 127\.0\.0\.1:(\d+) -> ", said)
                    assert found, f"port-forward to {target}: {said}"
                    local.append(int(found[1]))
                yield tuple(local)
            finally:
                process.terminate()


@dataclass(frozen=True)
class Service:
    """One LLMService in the cluster."""

    kube: Kube
    namespace: str
    name: str

    def manifest(self) -> Manifest:
        """The object, empty when it is not there."""
        return self.kube.get("llmservice", self.namespace, self.name)

    def status(self) -> Manifest:
        """Its status, empty before the first pass."""
        found: Manifest = self.manifest().get("status") or {}
        return found

    def condition(self, kind: str) -> Manifest:
        """One condition, empty before the first pass."""
        return condition(self.status(), kind)

    def patch(self, spec: Manifest) -> None:
        """Changes fields of the spec."""
        patch = json.dumps({"spec": spec})
        self.kube("-n", self.namespace, "patch", "llm", self.name, "--type=merge", "-p", patch)

    def delete(self) -> None:
        """Deletes the object and does not wait for its children."""
        self.kube("-n", self.namespace, "delete", "llm", self.name, "--ignore-not-found")

    @property
    def selector(self) -> str:
        """Labels of every child."""
        return f"app.kubernetes.io/managed-by=triton-llm-operator,app.kubernetes.io/instance={self.name}"

    def pods(self) -> list[Manifest]:
        """Pods that are not on their way out."""
        found = self.kube.list("pods", self.namespace, self.selector)
        return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]

    def children(self) -> list[str]:
        """Every child, as Kind/name."""
        found = self.kube.list(CHILD_KINDS, self.namespace, self.selector)
        return sorted(f"{one['kind']}/{one['metadata']['name']}" for one in found)

    def addresses(self) -> list[str]:
        """Addresses of pods that the Service sends requests to."""
        slices = self.kube.list("endpointslices", self.namespace, f"kubernetes.io/service-name={self.name}")
        ends = [end for one in slices for end in one.get("endpoints") or () if end["conditions"].get("ready")]
        return [address for end in ends for address in end["addresses"]]

    def wait_serving(self, replicas: str = "1/1", seconds: float = 150) -> None:
        """Returns once it serves with that many replicas, for the spec as it is now."""

        def serves() -> bool:
            found = self.manifest()
            status = found.get("status") or {}
            seen = status.get("observedGeneration") == found["metadata"]["generation"]
            return seen and (status.get("summary"), status.get("replicasSummary")) == ("Serving", replicas)

        eventually(serves, f"{self.name} serves with {replicas}", seconds)


def condition(status: Manifest, kind: str) -> Manifest:
    """One condition of a status; empty when it is not there."""
    return next((one for one in status.get("conditions") or () if one["type"] == kind), {})


def example(name: str) -> Manifest:
    """A manifest of `examples/`."""
    found: Manifest = yaml.safe_load((ROOT / "examples" / f"{name}.yaml").read_text(encoding="utf-8"))
    return found
