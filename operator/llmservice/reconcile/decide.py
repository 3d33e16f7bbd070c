"""Decide: from the world and the intent to what is to be written, each with its reason. Pure.

Guards come first, in order, and each ends the decision: what is being deleted is left alone, what is invalid changes
nothing, what belongs to somebody else is never touched. What runs keeps running whatever blocks the spec.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from llmservice.api.reasons import Reason
from llmservice.changes.rollout import RevisionState, RolloutStep, next_step
from llmservice.diagnose.chain import pod_finding
from llmservice.diagnose.finding import Evidence, Finding
from llmservice.diagnose.pod import Pod
from llmservice.diagnose.scheduling import WAITING
from llmservice.kube import resources
from llmservice.kube.differs import needs_apply
from llmservice.kube.resources import Manifest, Resource
from llmservice.reconcile.groups import troubled_sets
from llmservice.reconcile.intent import Blocked, Intent
from llmservice.reconcile.world import KEEPERS, World
from llmservice.workload.keeper import replica_template, revision_of_keeper, with_replicas
from llmservice.workload.names import WEIGHTS_CONTAINER, revision_name

WRITE_ORDER: Final = (
    resources.SERVICE_ACCOUNT,
    resources.SECRET,
    resources.CONFIG_MAP,
    resources.SERVICE,
    resources.POD_DISRUPTION_BUDGET,
    resources.NETWORK_POLICY,
    resources.POD_MONITOR,
    resources.RESOURCE_CLAIM_TEMPLATE,
    resources.DEPLOYMENT,
    resources.LEADER_WORKER_SET,
)
"""What pods need comes before the pods."""

NEVER_CHANGED: Final = frozenset({resources.RESOURCE_CLAIM_TEMPLATE})
"""Kubernetes takes no other spec for them; a kept revision keeps its own, whatever would be rendered today."""

SOON: Final = timedelta(seconds=5)
FETCHING: Final = timedelta(seconds=5)
"""No event tells of the progress of weights; the status changes in coarse steps, so most looks write nothing."""
STARTING: Final = timedelta(seconds=15)
LATER: Final = timedelta(seconds=60)


@dataclass(frozen=True)
class Write:
    """A manifest to apply, and why. `scale` changes the replica count alone, of a revision that is not rendered."""

    manifest: Manifest
    why: str
    scale: bool = False


@dataclass(frozen=True)
class Removal:
    """A child to delete, only as the very object that was seen, and why."""

    resource: Resource
    name: str
    uid: str
    why: str


@dataclass(frozen=True)
class Decision:
    """What one pass does. Empty where nothing is to be done."""

    writes: tuple[Write, ...] = ()
    removals: tuple[Removal, ...] = ()
    seed_replicas: int | None = None
    live: bool = False
    blocked: Finding | None = None
    rolling: str = ""
    deleting: bool = False
    live_failure: str = ""
    live_waiting: str = ""
    live_again: timedelta | None = None
    requeue_after: timedelta | None = None

    @property
    def changes(self) -> bool:
        """Whether anything of the cluster's is written, the status apart."""
        return bool(self.writes or self.removals or self.seed_replicas is not None)


def decide(world: World, intent: Intent | Blocked, memory: Manifest | None = None) -> Decision:
    """The decision for what was seen. `memory` is what the tuner wants to be kept."""
    if world.service is None:
        return Decision()
    if world.service["metadata"].get("deletionTimestamp"):
        return Decision(deleting=True)
    if isinstance(intent, Blocked):
        # Others of the namespace may free what a quota keeps from this one, and nothing tells of it.
        again = LATER if intent.reason is Reason.QUOTA_EXCEEDED else None
        return Decision(blocked=Finding(intent.reason, intent.message), requeue_after=again)
    if world.strangers:
        return Decision(blocked=_conflict(world), requeue_after=LATER)
    missing = _missing_api(world, intent)
    if missing:
        return Decision(blocked=Finding(Reason.API_MISSING, missing), requeue_after=LATER)
    return _converge(world, intent, memory)


def _missing_api(world: World, intent: Intent) -> str:
    """What the cluster would have to serve for the spec's pods; empty where it does."""
    kinds = {Resource.of(manifest) for manifest in intent.workload.manifests}
    if resources.RESOURCE_CLAIM_TEMPLATE in kinds & world.unserved:
        return (
            f"the cluster does not serve {resources.RESOURCE_CLAIM_TEMPLATE.api_version}, which placement.allocation: "
            "ResourceClaim needs: use Kubernetes 1.34 or later, or write placement.allocation: ExtendedResource"
        )
    if resources.LEADER_WORKER_SET in kinds & world.unserved:
        return (
            f"the cluster does not serve {resources.LEADER_WORKER_SET.api_version}, by which a replica runs on several "
            "nodes: install LeaderWorkerSet (kubernetes-sigs/lws), or write engine.parallelism.nodes: 1"
        )
    keeper = intent.workload.keeper
    kind, name = keeper["kind"], keeper["metadata"]["name"]
    live = world.keepers.get(name)
    if intent.service.spec.model.source.oci and live is not None and not _has_image_volume(live):
        return (
            "the cluster has no image volumes and left out the one that source.oci needs: write source.pvc, or use "
            "Kubernetes 1.35 (1.31 to 1.34 with the feature gate ImageVolume) and a runtime that mounts them, such as "
            f"containerd 2.1, and then delete {kind} {name!r}"
        )
    return ""


def _has_image_volume(keeper: Manifest) -> bool:
    return any("image" in volume for volume in replica_template(keeper)["spec"].get("volumes") or ())


def _conflict(world: World) -> Finding:
    described = [f"{resource.kind} {name!r} ({owner})" for (resource, name), owner in sorted(world.strangers.items())]
    text = (
        f"not the service's own, and left alone: {', '.join(described)}. Delete or rename it, or give the service "
        "another name; it is looked at again every minute"
    )
    return Finding(Reason.NAME_CONFLICT, text)


def _converge(world: World, intent: Intent, memory: Manifest | None) -> Decision:
    step = _rollout(world, intent)
    # The memory comes first: what a new process finds in it was decided, whether or not it was done.
    wanted = [*([memory] if memory else []), *intent.workload.manifests]
    writes = [*_child_writes(world, intent, step, wanted), *_scale_writes(world, intent, step)]
    writes.sort(key=lambda write: WRITE_ORDER.index(Resource.of(write.manifest)))
    starting = [pod for pod in world.all_pods if pod.alive and not pod.ready]
    again = _look_again(starting) or (LATER if troubled_sets(world) else None)
    return Decision(
        writes=tuple(writes),
        removals=tuple(_removals(world, step, wanted)),
        seed_replicas=_seed(world, intent),
        live=intent.workload.repository.has_gate and any(pod.ready for pod in world.pods),
        rolling=step.why if _is_rolling(world, intent) else "",
        requeue_after=again if intent.knobs.replicas else None,
    )


def _look_again(starting: list[Pod]) -> timedelta | None:
    """Pods that start are looked at more often than those that wait for somebody to act; events come besides."""
    if not starting:
        return None
    if any((weights := pod.init(WEIGHTS_CONTAINER)) and weights.running_since for pod in starting):
        return FETCHING
    faults = [finding for pod in starting if (finding := pod_finding(Evidence(pod))) and finding.fault]
    return LATER if len(faults) == len(starting) else STARTING


def _rollout(world: World, intent: Intent) -> RolloutStep:
    states = {}
    waiting = {pod.replica for pod in world.all_pods if not pod.over and _waits(pod)}
    for manifest in world.keepers.values():
        revision = revision_of_keeper(manifest)
        pods = [pod for pod in world.pods if pod.revision == revision and not pod.over]
        states[revision] = RevisionState(
            asked=int(manifest["spec"].get("replicas", 1)),
            existing=len(pods),
            ready=sum(pod.ready for pod in pods),
            waiting=sum(pod.name in waiting for pod in pods),
        )
    strategy = intent.service.spec.rollout.strategy
    return next_step(intent.workload.revision, intent.knobs.replicas, states, strategy)


def _waits(pod: Pod) -> bool:
    """Whether it has no node."""
    found = pod_finding(Evidence(pod))
    return found is not None and found.reason in WAITING


def _is_rolling(world: World, intent: Intent) -> bool:
    """Whether pods of another revision still exist beside the wanted one."""
    return any(pod.revision != intent.workload.revision and pod.alive for pod in world.pods)


def _child_writes(world: World, intent: Intent, step: RolloutStep, manifests: Sequence[Manifest]) -> list[Write]:
    found = []
    for manifest in manifests:
        resource, name = Resource.of(manifest), manifest["metadata"]["name"]
        if resource in world.unserved:
            continue
        wanted = manifest
        if resource in KEEPERS:
            wanted = with_replicas(manifest, step.replicas[intent.workload.revision])
        live = world.written.get(name) if resource == resources.SECRET else world.children.get((resource, name))
        if live is not None and resource in NEVER_CHANGED:
            continue
        if needs_apply(wanted, live):
            found.append(Write(wanted, "missing" if live is None else "not as rendered"))
    return found


def _scale_writes(world: World, intent: Intent, step: RolloutStep) -> list[Write]:
    """Replica counts of revisions that are on their way out: their template is theirs and stays as it is."""
    found = []
    for name, live in world.keepers.items():
        revision = revision_of_keeper(live)
        if revision == intent.workload.revision or revision not in step.replicas:
            continue
        if int(live["spec"].get("replicas", 1)) != step.replicas[revision]:
            metadata = {"name": name, "namespace": world.key[0], "uid": live["metadata"]["uid"]}
            scaled = {
                "apiVersion": live["apiVersion"],
                "kind": live["kind"],
                "metadata": metadata,
                "spec": {"replicas": step.replicas[revision]},
            }
            found.append(Write(scaled, f"revision {revision} is replaced", scale=True))
    return found


def _removals(world: World, step: RolloutStep, manifests: Sequence[Manifest]) -> list[Removal]:
    """Finished revisions, and shared children that the spec no longer asks for."""
    gone = {revision_name(world.key[1], revision) for revision in step.finished}
    wanted = {(Resource.of(one), one["metadata"]["name"]) for one in manifests}
    kept = {revision_name(world.key[1], revision) for revision in step.replicas} - gone
    kept |= {revision_name(world.key[1], pod.revision) for pod in world.all_pods if not pod.over}
    found = []
    for (resource, name), live in world.children.items():
        if (resource, name) in wanted or name in kept:
            continue
        why = "its revision has been replaced" if name in gone else "the spec no longer asks for it"
        found.append(Removal(resource, name, live["metadata"]["uid"], why))
    return sorted(found, key=lambda removal: (removal.resource, removal.name))


def _seed(world: World, intent: Intent) -> int | None:
    """Replicas to write into the spec once, when an autoscaler targets the service and finds no count to scale.

    `/scale` of an absent count reads as 0, which disables a HorizontalPodAutoscaler.
    """
    if world.autoscaler is None or intent.service.spec.replicas is not None:
        return None
    return max(1, intent.knobs.replicas)
