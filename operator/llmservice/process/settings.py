"""What the operator is started with."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from llmservice.api.fleet import FleetDefaults
from llmservice.api.yaml_text import YamlTextError, read_yaml
from llmservice.kube.lease import LeaseTimes

SHORTEST_KEY: Final = 16
"""Bytes of the operator's key below which its HMACs could be guessed."""
_SERVICE_ACCOUNT_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class StartupError(RuntimeError):
    """The operator cannot start; the message says why and what to do."""


def default_identity() -> str:
    """The pod's name where there is one, else host and process."""
    return os.environ.get("POD_NAME") or f"{socket.gethostname()}-{os.getpid()}"


def default_namespace() -> str:
    """The pod's namespace, where the Lease lives; `default` outside of a pod."""
    if name := os.environ.get("POD_NAMESPACE"):
        return name
    return _SERVICE_ACCOUNT_NAMESPACE.read_text().strip() if _SERVICE_ACCOUNT_NAMESPACE.exists() else "default"


@dataclass(frozen=True)
class OperatorSettings:
    """Settings of one operator process. No `namespaces`: the whole cluster."""

    fleet_file: Path | None = None
    operator_key_file: Path | None = None
    namespaces: tuple[str, ...] = ()
    lease_name: str = "llmservice-operator"
    lease_namespace: str = field(default_factory=default_namespace)
    identity: str = field(default_factory=default_identity)
    lease_times: LeaseTimes = field(default_factory=LeaseTimes)
    host: str = "0.0.0.0"  # noqa: S104 - the kubelet and Prometheus come from other hosts
    port: int = 8080
    log_level: str = "INFO"
    kubeconfig: Path | None = None
    context: str | None = None
    concurrency: int = 16
    """Passes at once. They mostly wait, and one that loads a model in a pod may wait for minutes."""
    resync_seconds: float = 300.0
    shutdown_grace: float = 20.0


def load_fleet(path: Path | None) -> FleetDefaults:
    """The fleet defaults in `path`, or the built-in ones. Raises StartupError that names file and field."""
    if path is None:
        return FleetDefaults()
    try:
        documents = [document for document in read_yaml(path.read_text(encoding="utf-8")) if document is not None]
        if len(documents) > 1:
            raise StartupError(f"fleet defaults {path}: {len(documents)} YAML documents: write one")
        return FleetDefaults.model_validate(documents[0] if documents else {})
    except OSError as error:
        raise StartupError(f"fleet defaults {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise StartupError(f"fleet defaults {path}: not UTF-8 text (byte {error.start})") from error
    except ValidationError as error:
        raise StartupError(f"fleet defaults {path}: {'; '.join(map(_in_words, error.errors()))}") from error
    except YamlTextError as error:
        raise StartupError(f"fleet defaults {path}: not valid YAML: {error}") from error


def _in_words(detail: ErrorDetails) -> str:
    where = ".".join(map(str, detail["loc"]))
    told = "there is no such field" if detail["type"] == "extra_forbidden" else detail["msg"]
    return f"{where}: {told}" if where else told


def load_operator_key(path: Path | None) -> bytes:
    """The key of the restricted APIs' tokens. Raises StartupError when there is none worth the name."""
    if path is None:
        raise StartupError("no operator key: name a file with at least 16 random bytes by --operator-key-file")
    try:
        key = path.read_bytes().strip()
    except OSError as error:
        raise StartupError(f"operator key {path}: {error.strerror or error}") from error
    if len(key) < SHORTEST_KEY:
        raise StartupError(
            f"operator key {path}: {len(key)} bytes are too few, write at least {SHORTEST_KEY} random ones"
        )
    return key
