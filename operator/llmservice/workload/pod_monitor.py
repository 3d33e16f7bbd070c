"""The PodMonitor: how a Prometheus operator finds the metrics of every replica."""

from __future__ import annotations

from llmservice.api.duration import format_duration
from llmservice.api.fleet import FleetDefaults
from llmservice.api.service import LLMService
from llmservice.workload.manifest import Manifest, manifest
from llmservice.workload.names import REVISION_LABEL, replica_selector, shared_name
from llmservice.workload.openai import has_openai


def build_pod_monitor(service: LLMService, fleet: FleetDefaults) -> Manifest:
    """The PodMonitor. Series carry the revision, so that two revisions of one rollout can be told apart."""
    built = manifest(
        service,
        "monitoring.coreos.com/v1",
        "PodMonitor",
        shared_name(service.metadata.name),
        extra_labels=dict(fleet.pod_monitor_labels),
    )
    every = format_duration(fleet.signals_interval)
    pages = ["metrics", "openai-admin"] if has_openai(service) else ["metrics"]
    built["spec"] = {
        "selector": {"matchLabels": replica_selector(service.metadata.name)},
        "podTargetLabels": [REVISION_LABEL],
        "podMetricsEndpoints": [{"port": page, "path": "/metrics", "interval": every} for page in pages],
    }
    return built
