"""The LeaderWorkerSet of one revision whose replicas run on several nodes: a leader with Triton, and its workers.

kubernetes-sigs/lws, api/leaderworkerset/v1, `LeaderWorkerSetSpec`. Its controller makes the pods of a group together,
tells each its place and the leader's address, and starts a group again as a whole.
"""

from __future__ import annotations

from typing import Final

from llmservice.api.fleet import FleetDefaults
from llmservice.api.plan import CapacityPlan
from llmservice.api.service import LLMService
from llmservice.workload.manifest import Manifest, manifest
from llmservice.workload.names import INPUTS_ANNOTATION, revision_name
from llmservice.workload.pod import build_pod_template, build_worker_template
from llmservice.workload.queue import queue_labels

API_VERSION: Final = "leaderworkerset.x-k8s.io/v1"
KIND: Final = "LeaderWorkerSet"

AFTER_START: Final = "leaderworkerset.sigs.k8s.io/experimental-recreate-group-after-start"
"""A step that fails before all pods of a group run is tried again by itself, as in any pod. Restart policy
`RecreateGroupAfterStart` says the same, from LWS 0.9 on; older ones would refuse the object."""

EXCLUSIVE: Final = "leaderworkerset.sigs.k8s.io/exclusive-topology"
"""A node label: a group lies within one of its values, and no other group does. LWS reads it of set and pods."""


def build_group_template(service: LLMService, plan: CapacityPlan, fleet: FleetDefaults, revision: str) -> Manifest:
    """`leaderWorkerTemplate`: what a group is made of, labelled with `revision`. Raises RenderError.

    vLLM's processes on the other nodes cannot join an engine that started again, so a group restarts as a whole.
    """
    return {
        "size": plan.nodes,
        "restartPolicy": "RecreateGroupOnPodRestart",
        "leaderTemplate": build_pod_template(service, plan, fleet, revision),
        "workerTemplate": build_worker_template(service, plan, fleet, revision),
    }


def build_leader_worker_set(service: LLMService, revision: str, template: Manifest, inputs: str) -> Manifest:
    """The LeaderWorkerSet, without `replicas`, as a Deployment; its template never changes either."""
    asked = template["leaderTemplate"]["metadata"].get("annotations", {})
    exclusive = {EXCLUSIVE: asked[EXCLUSIVE]} if EXCLUSIVE in asked else {}
    built = manifest(
        service,
        API_VERSION,
        KIND,
        revision_name(service.metadata.name, revision),
        revision=revision,
        annotations={**exclusive, INPUTS_ANNOTATION: inputs, AFTER_START: "true"},
        extra_labels=queue_labels(service),
    )
    built["spec"] = {"startupPolicy": "LeaderCreated", "leaderWorkerTemplate": template}
    return built
