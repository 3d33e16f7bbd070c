"""The PodDisruptionBudget: node drains take one replica at a time."""

from __future__ import annotations

from llmservice.api.service import LLMService
from llmservice.workload.manifest import Manifest, manifest
from llmservice.workload.names import pod_selector, shared_name


def build_pod_disruption_budget(service: LLMService) -> Manifest:
    """The PodDisruptionBudget, always there and always `maxUnavailable: 1`.

    With one replica that allows its eviction, which is right: `minAvailable: 1` would hold up the drain of its node
    for ever. So the object needs no second form for small services and never flaps with the replica count. Pods that
    never became ready serve nobody and may always go. While a part of a replica over several nodes is missing, no
    other pod may go.
    """
    built = manifest(service, "policy/v1", "PodDisruptionBudget", shared_name(service.metadata.name))
    built["spec"] = {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": pod_selector(service.metadata.name)},
    }
    return built
