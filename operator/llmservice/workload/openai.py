"""The container of the OpenAI-compatible endpoint, and the Secrets it sees."""

from __future__ import annotations

import math
from typing import Final

from llmservice.api.engine import Driver
from llmservice.api.fleet import FleetDefaults
from llmservice.api.service import LLMService
from llmservice.repository.layout import gate_name
from llmservice.workload.container import container
from llmservice.workload.manifest import Manifest
from llmservice.workload.names import GRPC_PORT, OPENAI_ADMIN_PORT, OPENAI_CONTAINER, OPENAI_PORT
from llmservice.workload.probes import build_lifecycle, exit_timeout

USER_ID: Final = 65532
"""The user of the operator's image and not Triton's: processes of one pod see each other, and the model's code need
not read API keys out of this one."""
KEYS_PATH: Final = "/openai/keys"
TLS_PATH: Final = "/openai/tls"


def served_names(service: LLMService) -> tuple[str, ...]:
    """The names by which clients may ask for the model."""
    return tuple(service.spec.model.served_names) or (service.metadata.name,)


def adapter_names(service: LLMService) -> tuple[str, ...]:
    """Adapters, each a model of its own to clients."""
    vllm = service.spec.engine.vllm
    return tuple(adapter.name for adapter in vllm.adapters) if vllm else ()


def has_openai(service: LLMService) -> bool:
    """Whether replicas have the endpoint. It asks the gate, whose tensors no stock backend has."""
    return service.spec.service.openai.enabled and service.spec.engine.driver is Driver.NATIVE


def build_openai_containers(service: LLMService, fleet: FleetDefaults) -> list[Manifest]:
    """The container; none where the endpoint is turned off, or has no gate to ask.

    It gets its end in step with Triton: the same hook, the same signal at the same time, the same time to finish.
    Readiness says that it takes requests; whether the model is there is for Triton's own probe to say.
    """
    if not has_openai(service):
        return []
    health = {"port": "openai-admin"}
    mounts = [{"name": volume["name"], "mountPath": path, "readOnly": True} for volume, path in _secrets(service)]
    content: Manifest = {
        "args": _arguments(service),
        "env": [{"name": "HOME", "value": "/tmp"}],  # noqa: S108 - where nothing is written
        "ports": [
            {"name": "openai", "containerPort": OPENAI_PORT, "protocol": "TCP"},
            {"name": "openai-admin", "containerPort": OPENAI_ADMIN_PORT, "protocol": "TCP"},
        ],
        "resources": {"requests": {"cpu": "50m", "memory": "96Mi"}, "limits": {"memory": "512Mi"}},
    }
    built = container(OPENAI_CONTAINER, fleet.operator_image, fleet, content, mounts)
    built["securityContext"] |= {"runAsUser": USER_ID, "runAsGroup": USER_ID}
    return [
        {
            **built,
            "lifecycle": build_lifecycle(fleet),
            "startupProbe": {"httpGet": {"path": "/healthz", **health}, "periodSeconds": 1, "failureThreshold": 60},
            "readinessProbe": {"httpGet": {"path": "/readyz", **health}, "periodSeconds": 5, "timeoutSeconds": 5},
            "livenessProbe": {
                "httpGet": {"path": "/healthz", **health},
                "periodSeconds": 10,
                "timeoutSeconds": 5,
                "failureThreshold": 6,
            },
        }
    ]


def openai_volumes(service: LLMService) -> list[Manifest]:
    """Volumes of the endpoint's Secrets."""
    return [volume for volume, _ in _secrets(service)] if has_openai(service) else []


def _secrets(service: LLMService) -> list[tuple[Manifest, str]]:
    asked = service.spec.service.openai
    named = (("openai-keys", asked.api_keys_secret, KEYS_PATH), ("openai-tls", asked.tls_secret, TLS_PATH))
    return [({"name": name, "secret": {"secretName": secret}}, path) for name, secret, path in named if secret]


def _arguments(service: LLMService) -> list[str]:
    asked = service.spec.service.openai
    arguments = [
        "openai",
        f"--triton=127.0.0.1:{GRPC_PORT}",
        f"--model={gate_name(service.metadata.name)}",
        *(f"--served-name={name}" for name in served_names(service)),
        *(f"--adapter={name}" for name in adapter_names(service)),
        "--host=0.0.0.0",
        f"--port={OPENAI_PORT}",
        f"--admin-port={OPENAI_ADMIN_PORT}",
        f"--max-request-bytes={asked.max_request_bytes}",
        f"--request-seconds={math.ceil(asked.request_timeout.total_seconds())}",
        f"--drain-seconds={exit_timeout(service.spec.drain)}",
    ]
    arguments += [f"--api-keys={KEYS_PATH}"] if asked.api_keys_secret else []
    arguments += [f"--tls={TLS_PATH}"] if asked.tls_secret else []
    return arguments
