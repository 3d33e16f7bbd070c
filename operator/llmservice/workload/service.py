"""The Kubernetes Service in front of all replicas, whatever their revision."""

from __future__ import annotations

from llmservice.api.service import LLMService
from llmservice.workload.manifest import Manifest, manifest
from llmservice.workload.names import GRPC_PORT, HTTP_PORT, METRICS_PORT, OPENAI_PORT, replica_selector, shared_name
from llmservice.workload.openai import has_openai


def build_service(service: LLMService) -> Manifest:
    """The Service: HTTP, gRPC, metrics, and OpenAI's API where replicas have it.

    `appProtocol` tells meshes and gateways that gRPC is HTTP/2: without it they balance connections, not calls.
    """
    asked = service.spec.service
    openai: list[Manifest] = []
    if has_openai(service):
        protocol = "https" if asked.openai.tls_secret else "http"
        openai = [
            {
                "name": "openai",
                "port": OPENAI_PORT,
                "targetPort": "openai",
                "protocol": "TCP",
                "appProtocol": protocol,
            }
        ]
    built = manifest(
        service, "v1", "Service", shared_name(service.metadata.name), annotations=dict(asked.annotations) or None
    )
    built["spec"] = {
        "type": asked.type.value,
        "selector": replica_selector(service.metadata.name),
        "ports": [
            {"name": "http", "port": HTTP_PORT, "targetPort": "http", "protocol": "TCP", "appProtocol": "http"},
            {
                "name": "grpc",
                "port": GRPC_PORT,
                "targetPort": "grpc",
                "protocol": "TCP",
                "appProtocol": "kubernetes.io/h2c",
            },
            {
                "name": "metrics",
                "port": METRICS_PORT,
                "targetPort": "metrics",
                "protocol": "TCP",
                "appProtocol": "http",
            },
            *openai,
        ],
    }
    return built
