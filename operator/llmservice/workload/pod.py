"""The pod template of a revision."""

from __future__ import annotations

from typing import Final

from llmservice.api.fleet import FleetDefaults, Pool
from llmservice.api.placement import Spread
from llmservice.api.plan import CapacityPlan
from llmservice.api.service import LLMService
from llmservice.api.template import PodTemplate
from llmservice.workload.claims import claimed_annotation, pod_claims
from llmservice.workload.containers import (
    build_repository_container,
    build_triton_container,
    build_worker_container,
)
from llmservice.workload.image_code import build_code_containers
from llmservice.workload.manifest import Manifest
from llmservice.workload.names import (
    CLAIMED_ANNOTATION,
    REVISION_LABEL,
    TRITON_VERSION_ANNOTATION,
    labels,
    replica_selector,
    revision_name,
    shared_name,
    worker_labels,
)
from llmservice.workload.openai import build_openai_containers
from llmservice.workload.parts import Parts
from llmservice.workload.probes import grace_period
from llmservice.workload.queue import queue_labels
from llmservice.workload.volumes import build_volumes
from llmservice.workload.weights import build_weights_containers

HOSTNAME: Final = "kubernetes.io/hostname"
GROUP_KEY: Final = "leaderworkerset.sigs.k8s.io/group-key"
"""A label that LeaderWorkerSet gives to the pods of one group, with a value of its own."""
USER_ID: Final = 1000
"""`triton-server`, the non-root user of Triton's images."""


def build_pod_template(service: LLMService, plan: CapacityPlan, fleet: FleetDefaults, revision: str) -> Manifest:
    """The whole pod template, labelled with `revision`. Raises RenderError with the path of a field that cannot be."""
    made = Parts.of(service, plan, fleet)
    triton = build_triton_container(service, plan, made, fleet)
    drain: Manifest = {
        "terminationGracePeriodSeconds": grace_period(service.spec.drain, fleet),
        "topologySpreadConstraints": _spread(service, made.pool, revision),
    }
    containers = [triton, *build_openai_containers(service, fleet)]
    return _assembled(service, plan, fleet, revision, made, drain, containers, labels(service.metadata.name, revision))


def build_worker_template(service: LLMService, plan: CapacityPlan, fleet: FleetDefaults, revision: str) -> Manifest:
    """The pods that hold the rest of an engine over several nodes: the leader's files and accelerators, no Triton.

    They end after the leader, which has drained by then.
    """
    made = Parts.of(service, plan, fleet)
    worker = build_worker_container(service, made, fleet)
    worn = worker_labels(service.metadata.name, revision)
    own = {"affinity": near} if (near := _near_leader(service, made.pool)) else {}
    return _assembled(service, plan, fleet, revision, made, own, [worker], worn)


def _assembled(
    service: LLMService,
    plan: CapacityPlan,
    fleet: FleetDefaults,
    revision: str,
    made: Parts,
    own: Manifest,
    containers: list[Manifest],
    worn: dict[str, str],
) -> Manifest:
    """A pod template: `own` fields, `containers` and the labels `worn`, with what leaders and workers share."""
    name, pool, image, template = service.metadata.name, made.pool, made.image, made.template
    spec: Manifest = {
        "serviceAccountName": shared_name(name),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        # As process 1 tritonserver could not be killed from inside, and a dead gate's streams would hang until the exit
        # timeout (docs/decisions/0006).
        "shareProcessNamespace": True,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "fsGroup": USER_ID,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        **own,
        "initContainers": [
            build_repository_container(fleet),
            *build_code_containers(service, image.image, fleet),
            *build_weights_containers(service, image.image, template, fleet),
        ],
        "containers": containers,
        "volumes": build_volumes(service, revision_name(name, revision), template, fleet),
        **placement_of(pool, template, on_gpu=plan.accelerators_per_replica > 0),
    }
    if made.claimed:
        spec["resourceClaims"] = pod_claims(revision_name(name, revision))
    annotations = {
        **template.annotations,
        "kubectl.kubernetes.io/default-container": containers[0]["name"],
        TRITON_VERSION_ANNOTATION: image.triton_version,
        **({CLAIMED_ANNOTATION: claimed_annotation(pool, plan)} if made.claimed else {}),
    }
    return {
        "metadata": {"labels": {**template.labels, **queue_labels(service), **worn}, "annotations": annotations},
        "spec": spec,
    }


def placement_of(pool: Pool, template: PodTemplate, *, on_gpu: bool) -> Manifest:
    """Where the pod may run. GPU nodes are commonly tainted with their resource's name, so that is tolerated."""
    tolerations = [dict(toleration) for toleration in template.tolerations]
    if on_gpu:
        gpu: Manifest = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
        tolerations += [] if gpu in tolerations else [gpu]
    built: Manifest = {
        "nodeSelector": dict(pool.node_selector),
        "tolerations": tolerations,
        "runtimeClassName": pool.runtime_class_name,
        "priorityClassName": template.priority_class_name,
        "imagePullSecrets": [{"name": secret.name} for secret in template.image_pull_secrets],
    }
    return {key: value for key, value in built.items() if value}


def _near_leader(service: LLMService, pool: Pool) -> Manifest:
    """Workers in their leader's failure domains, where there is room: a group that lies in two of them fails with each.

    Leaders are spread as replicas on one node are, and their groups with them. Kubernetes before 1.31 leaves out
    `matchLabelKeys`; the worker then prefers to be near any leader of the service.
    """
    keys = [key for key in pool.topology_keys if key != HOSTNAME]
    leader = {"labelSelector": {"matchLabels": replica_selector(service.metadata.name)}, "matchLabelKeys": [GROUP_KEY]}
    preferred = [{"weight": 100, "podAffinityTerm": {**leader, "topologyKey": key}} for key in keys]
    return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}} if preferred else {}


def _spread(service: LLMService, pool: Pool, revision: str) -> list[Manifest]:
    """Replicas apart over the pool's failure domains: where that is possible, or else not at all.

    Required holds for domains larger than a node, unless the pool has no other: nodes that are full of other pods
    would count as empty, and the service could not grow. It counts the pods of one revision, since those of the one
    before are leaving, and no nodes that the pod may not use.
    """
    name = service.metadata.name
    required = service.spec.placement.spread is Spread.REQUIRED
    larger = [key for key in pool.topology_keys if key != HOSTNAME] or pool.topology_keys
    built = []
    for key in pool.topology_keys:
        constraint: Manifest = {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": replica_selector(name)},
        }
        if required and key in larger:
            constraint |= {
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": replica_selector(name) | {REVISION_LABEL: revision}},
                "nodeTaintsPolicy": "Honor",
            }
        built.append(constraint)
    return built
