"""The NetworkPolicy: who may reach the replicas."""

from __future__ import annotations

from llmservice.api.operations import ServiceType
from llmservice.api.service import LLMService
from llmservice.workload.manifest import Manifest, manifest
from llmservice.workload.names import (
    GRPC_PORT,
    HTTP_PORT,
    METRICS_PORT,
    OPENAI_ADMIN_PORT,
    OPENAI_PORT,
    pod_selector,
    shared_name,
)
from llmservice.workload.openai import has_openai


def build_network_policy(service: LLMService, *, groups: bool) -> Manifest:
    """The NetworkPolicy: the ports, from the cluster's pods; from anywhere where the Service is exposed.

    Clients and the operator share Triton's ports, so the control APIs on them are guarded by the token and not by
    address. Egress stays open: weights come from hubs and stores that only the user knows. Where replicas are `groups`
    of pods, these talk to each other on ports of their choice, and nobody else to them there.
    """
    serving = [{"port": HTTP_PORT, "protocol": "TCP"}, {"port": GRPC_PORT, "protocol": "TCP"}]
    metrics = [{"port": METRICS_PORT, "protocol": "TCP"}]
    if has_openai(service):
        serving.append({"port": OPENAI_PORT, "protocol": "TCP"})
        metrics.append({"port": OPENAI_ADMIN_PORT, "protocol": "TCP"})
    cluster: list[Manifest] = [{"namespaceSelector": {}}]
    exposed = service.spec.service.type is not ServiceType.CLUSTER_IP
    built = manifest(service, "networking.k8s.io/v1", "NetworkPolicy", shared_name(service.metadata.name))
    covered = {"matchLabels": pod_selector(service.metadata.name)}
    built["spec"] = {
        "podSelector": covered,
        "policyTypes": ["Ingress"],
        "ingress": [
            {"ports": serving} if exposed else {"ports": serving, "from": cluster},
            {"ports": metrics, "from": cluster},
            *([{"from": [{"podSelector": covered}]}] if groups else []),
        ],
    }
    return built
