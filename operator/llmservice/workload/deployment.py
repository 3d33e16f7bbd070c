"""The Deployment of one revision."""

from __future__ import annotations

from llmservice.api.plan import CapacityPlan
from llmservice.api.service import LLMService
from llmservice.workload.manifest import Manifest, manifest
from llmservice.workload.names import INPUTS_ANNOTATION, REVISION_LABEL, replica_selector, revision_name
from llmservice.workload.probes import FETCH_ALLOWANCE, startup_budget
from llmservice.workload.queue import queue_labels


def build_deployment(
    service: LLMService, plan: CapacityPlan, revision: str, template: Manifest, inputs: str
) -> Manifest:
    """The Deployment, without `replicas`: the loop sets them last (`with_replicas`), from the rollout's plan.

    Its template never changes, so the strategy is never used; it says "one at a time" should anyone edit by hand.
    """
    # Kubernetes then calls the rollout stuck; the loop says earlier and better.
    budget = startup_budget(plan) + FETCH_ALLOWANCE
    built = manifest(
        service,
        "apps/v1",
        "Deployment",
        revision_name(service.metadata.name, revision),
        revision=revision,
        annotations={INPUTS_ANNOTATION: inputs},
        extra_labels=queue_labels(service),
    )
    built["spec"] = {
        "selector": {"matchLabels": replica_selector(service.metadata.name) | {REVISION_LABEL: revision}},
        "revisionHistoryLimit": 0,
        "progressDeadlineSeconds": int(budget.total_seconds()),
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        "template": template,
    }
    return built
