"""The pod template of a revision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from llmservice.api.fleet import EngineImage, FleetDefaults, Pool
from llmservice.api.placement import Spread
from llmservice.api.plan import CapacityPlan
from llmservice.api.service import LLMService
from llmservice.api.template import PodTemplate
from llmservice.capacity.accelerators import find_accelerator
from llmservice.repository.errors import RenderError
from llmservice.repository.features import TritonFeatures
from llmservice.repository.images import triton_version_of
from llmservice.workload.claims import claimed_annotation, is_claimed, pod_claims
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
    revision_name,
    selector,
    shared_name,
    worker_labels,
)
from llmservice.workload.openai import build_openai_containers
from llmservice.workload.probes import grace_period
from llmservice.workload.queue import queue_labels
from llmservice.workload.template import merge
from llmservice.workload.volumes import build_volumes
from llmservice.workload.weights import build_weights_containers

HOSTNAME: Final = "kubernetes.io/hostname"
USER_ID: Final = 1000
"""`triton-server`, the non-root user of Triton's images."""


def build_pod_template(service: LLMService, plan: CapacityPlan, fleet: FleetDefaults, revision: str) -> Manifest:
    """The whole pod template, labelled with `revision`. Raises RenderError with the path of a field that cannot be."""
    made = Parts.of(service, plan, fleet)
    triton = build_triton_container(
        service,
        plan,
        made.image.image,
        TritonFeatures.for_version(made.image.triton_version),
        made.template,
        made.accelerators,
        fleet,
        claimed=made.claimed,
    )
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
    worker = build_worker_container(
        service, made.image.image, made.template, made.accelerators, fleet, claimed=made.claimed
    )
    worn = worker_labels(service.metadata.name, revision)
    return _assembled(service, plan, fleet, revision, made, {}, [worker], worn)


@dataclass(frozen=True)
class Parts:
    """What every pod of a replica is made from. `accelerators` are extended resources; none where it has a claim."""

    pool: Pool
    image: EngineImage
    template: PodTemplate
    claimed: bool
    accelerators: dict[str, str]

    @classmethod
    def of(cls, service: LLMService, plan: CapacityPlan, fleet: FleetDefaults) -> Self:
        """The parts. Raises RenderError."""
        pool, claimed = pool_of(service, fleet), is_claimed(service, plan)
        return cls(
            pool=pool,
            image=engine_image(service, fleet),
            template=merge(pool.template, service.spec.template),
            claimed=claimed,
            accelerators={} if claimed else accelerator_resources(pool, plan),
        )


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


def pool_of(service: LLMService, fleet: FleetDefaults) -> Pool:
    """The service's pool. Raises RenderError that names the pools there are."""
    name = service.spec.placement.pool
    if name not in fleet.pools:
        raise RenderError(
            "spec.placement.pool", f"there is no pool {name!r}: use one of {', '.join(sorted(fleet.pools)) or '(none)'}"
        )
    return fleet.pools[name]


def engine_image(service: LLMService, fleet: FleetDefaults) -> EngineImage:
    """The Triton image of the service's replicas, and the Triton version in it.

    Of an image that the service names, the version is that of NVIDIA's tag, else taken to be the default image's.
    """
    engine = service.spec.engine
    if engine.backend not in fleet.images:
        raise RenderError(
            "spec.engine.backend",
            f"the fleet has no image for {engine.backend.value}, whose Triton version says what can be rendered: set "
            f"fleet.images.{engine.backend.value} in the chart's values",
        )
    default = fleet.images[engine.backend]
    if engine.image is None:
        return default
    return EngineImage(image=engine.image, triton_version=triton_version_of(engine.image) or default.triton_version)


def accelerator_resources(pool: Pool, plan: CapacityPlan) -> dict[str, str]:
    """The extended resource of one pod: `{"nvidia.com/gpu": "2"}`; empty on CPU."""
    known = find_accelerator(pool.accelerator)
    resource = pool.resource or (known.resource if known else "")
    if not resource or not plan.accelerators_per_replica:
        return {}
    return {resource: str(plan.accelerators_per_pod)}


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
            "labelSelector": {"matchLabels": selector(name)},
        }
        if required and key in larger:
            constraint |= {
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": selector(name) | {REVISION_LABEL: revision}},
                "nodeTaintsPolicy": "Honor",
            }
        built.append(constraint)
    return built
