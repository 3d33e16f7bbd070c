"""Objects of a cluster: a service with a paced engine, and a pod that puts open-loop load on it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from tests.serving.open_load import Seen
from tests.serving.paced_service import Pace
from tests.weights.small_model import small_model

Manifest = dict[str, Any]
HERE: Final = Path(__file__).parent
PACKAGES: Final = "/opt/serving"
"""Where the Triton image looks for the engine's packages."""
PORT: Final = 8080
_FILES: Final = {
    "llmtorch/__init__.py": "__init__.py",
    "paced_engine.py": "paced_engine.py",
    "llmtorch/engine.py": "as_torch.py",
    "llmtorch/options.py": "as_torch.py",
}
"""The folder with the engine's packages, each file by what it is made of."""


@contextmanager
def model_folder() -> Iterator[Path]:
    """A folder with a model that nobody computes; pods may read it."""
    with TemporaryDirectory(prefix="paced-model-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for file, content in small_model(shards=1, shard_bytes=20_000).items():
            (folder / file).write_bytes(content)
        yield folder


def packages(namespace: str) -> Manifest:
    """The ConfigMap `paced` with the engine's packages."""
    names = ("paced_engine.py", "as_torch.py")
    data = {"__init__.py": "", **{name: (HERE / "paced" / name).read_text(encoding="utf-8") for name in names}}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "paced", "namespace": namespace},
        "data": data,
    }


def paced(namespace: str, name: str, pace: Pace, model: Path, memory_limit: str | None = None, **spec: Any) -> Manifest:
    """A service whose engine is paced; `spec` is added to its own. `memory_limit` is of a pod; None: the node's."""
    limits = {"limits": {"memory": memory_limit}} if memory_limit else {}
    items = [{"key": key, "path": path} for path, key in _FILES.items()]
    template = {
        "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}, **limits},
        "volumes": [{"name": "paced", "configMap": {"name": "paced", "items": items}}],
        "volumeMounts": [{"name": "paced", "mountPath": PACKAGES}],
    }
    parameters = {
        "step_seconds": str(pace.step_seconds),
        "sequence_seconds": str(pace.sequence_seconds),
        "sharing_factor": str(pace.sharing_factor),
    }
    own = {
        "model": {"source": {"hostPath": {"path": str(model)}}, "maxLength": 256},
        "engine": {"backend": "torch", "parameters": parameters},
        "batching": {"mode": "Continuous", "maxSequences": pace.max_sequences},
        "placement": {"pool": "cpu"},
        "drain": {"timeout": "60s"},
        "service": {"openAI": {"enabled": False}},
        "template": template,
    }
    return {
        "apiVersion": "triton-llm.dev/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": name, "namespace": namespace},
        "spec": own | spec,
    }


@dataclass(frozen=True)
class LoadPod:
    """The pod `load`. `raw` answers a GET of the API server, `/api/v1/…`."""

    namespace: str
    raw: Callable[[str], str]

    def manifests(self, image: str, service: str, tokens: int) -> list[Manifest]:
        """The pod with its program, for the operator's `image`, which has what the program needs."""
        program = (HERE / "open_load.py").read_text(encoding="utf-8")
        metadata = {"name": "load", "namespace": self.namespace, "labels": {"app": "load"}}
        url = f"http://{service}.{self.namespace}.svc:8000"
        container = {
            "name": "load",
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["python3", "/load/open_load.py", url, service, str(tokens), str(PORT)],
            "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
            "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}},
            "volumeMounts": [{"name": "program", "mountPath": "/load", "readOnly": True}],
        }
        volumes = [{"name": "program", "configMap": {"name": "load"}}]
        spec = {"containers": [container], "volumes": volumes, "terminationGracePeriodSeconds": 0}
        return [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"open_load.py": program}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec},
        ]

    def rate(self, requests_per_second: float) -> float:
        """Sets the rate; the moment of the load's own clock from which it holds."""
        return self._moment(f"rate/{requests_per_second}")

    def burst(self, requests: int) -> float:
        """Sends so many at once; when."""
        return self._moment(f"burst/{requests}")

    def seen(self) -> Seen:
        """What it saw so far."""
        found: dict[str, Any] = json.loads(self._get("seen"))
        pairs = {name: [(due, what) for due, what in found[name]] for name in ("requests", "failed")}
        return Seen(**found | pairs)

    def _moment(self, path: str) -> float:
        answer: Mapping[str, float] = json.loads(self._get(path))
        return answer["now"]

    def _get(self, path: str) -> str:
        return self.raw(f"/api/v1/namespaces/{self.namespace}/pods/load:{PORT}/proxy/{path}")


def latencies(seen: Seen, since: float, until: float = math.inf) -> list[float]:
    """Seconds of the answers to requests that were due in a time, in ascending order."""
    return sorted(seconds for due, seconds in seen.requests if since <= due < until)


def p99(ordered: list[float]) -> float:
    """The 99th percentile of some latencies in ascending order. Raises ValueError for fewer than a hundred."""
    if len(ordered) < 100:
        raise ValueError(f"{len(ordered)} requests have no 99th percentile")
    return ordered[math.ceil(0.99 * len(ordered)) - 1]
