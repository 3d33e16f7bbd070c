"""The ServiceAccount of a service's pods: an identity for pull secrets and workload identity, without a token."""

from __future__ import annotations

from llmservice.api.service import LLMService
from llmservice.workload.manifest import Manifest, manifest
from llmservice.workload.names import shared_name


def build_service_account(service: LLMService) -> Manifest:
    """The ServiceAccount. Pods talk to no API server, so none gets a token."""
    built = manifest(service, "v1", "ServiceAccount", shared_name(service.metadata.name))
    built["automountServiceAccountToken"] = False
    return built
