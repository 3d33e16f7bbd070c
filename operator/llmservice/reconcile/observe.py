"""Observe: read everything one pass needs, from the API server itself and never from a cache."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from llmservice.diagnose.keepers import MAKERS, KeeperEvent
from llmservice.diagnose.pod import Pod, read_pod
from llmservice.diagnose.startup import needs_log
from llmservice.kube import resources
from llmservice.kube.client import KubeClient
from llmservice.kube.errors import KubeError, NotServed
from llmservice.kube.events import last_seen, times_seen
from llmservice.kube.resources import Manifest, Resource
from llmservice.kube.selectors import field_at
from llmservice.reconcile.groups import short_of, troubled_sets
from llmservice.reconcile.work_queue import Key
from llmservice.reconcile.world import ChildId, MissingClaim, World, is_controlled_by, owner_in_words
from llmservice.workload.names import NAME_LABEL, REVISION_LABEL, WEIGHTS_CONTAINER, WORKER_NAME, search_labels

READ_KINDS: Final = (
    resources.DEPLOYMENT,
    resources.CONFIG_MAP,
    resources.SERVICE,
    resources.SERVICE_ACCOUNT,
    resources.POD_DISRUPTION_BUDGET,
    resources.NETWORK_POLICY,
    resources.POD_MONITOR,
    resources.RESOURCE_CLAIM_TEMPLATE,
    resources.LEADER_WORKER_SET,
)
"""Kinds of children that are read. Secrets are not among them: they are written and never read."""

LOG_LINES: Final = 200
SHORT_GROUPS: Final = 4
"""Groups without all their pods whose events are read: what one lacks the others lack too."""
_CLAIMS: Final = ("spec.model.source.pvc.claimName", "spec.model.cache.claimName")
_WANTED_EVENTS = {"Pulling", "Pulled", "Killing"}


async def observe(client: KubeClient, key: Key) -> World:
    """The service, its children and its pods. Raises KubeError when the reads fail."""
    namespace, name = key
    service = await client.get(resources.LLM_SERVICE, namespace, name)
    if service is None:
        return World(key)
    labels = search_labels(name)
    listed = await asyncio.gather(*(_list(client, kind, namespace, labels) for kind in READ_KINDS))
    uid = service["metadata"].get("uid", "")
    children: dict[ChildId, Manifest] = {}
    unserved = set()
    for kind, objects in zip(READ_KINDS, listed, strict=True):
        if objects is None:
            unserved.add(kind)
        for manifest in objects or ():
            if is_controlled_by(manifest, uid):
                children[kind, manifest["metadata"]["name"]] = manifest
    world = World(key, service=service, children=children, unserved=frozenset(unserved))
    pods, workers, autoscaler, claim = await asyncio.gather(
        _pods(client, world, labels), _workers(client, world), _autoscaler(client, world), _missing_claim(client, world)
    )
    return replace(world, pods=pods, workers=workers, autoscaler=autoscaler, missing_claim=claim)


async def observe_strangers(client: KubeClient, world: World, wanted: Iterable[Manifest]) -> World:
    """The world, with the objects that have a wanted child's name and are not the service's own."""
    namespace, _ = world.key
    strangers: dict[ChildId, str] = {}
    for manifest in wanted:
        resource, name = Resource.of(manifest), manifest["metadata"]["name"]
        if (resource, name) in world.children or resource == resources.SECRET or resource in world.unserved:
            continue
        found = await client.get(resource, namespace, name)
        if found is not None and not is_controlled_by(found, world.uid):
            strangers[resource, name] = owner_in_words(found)
    return replace(world, strangers=strangers)


async def observe_troubles(client: KubeClient, world: World) -> World:
    """The world, with events and logs of the pods that do not serve: read only where something is to explain."""
    troubled = [pod for pod in world.all_pods if not pod.ready and not pod.deleting]
    if not troubled:
        return world
    events, logs, weights = await asyncio.gather(
        asyncio.gather(*(_events(client, world.key[0], pod) for pod in troubled)),
        asyncio.gather(*(_log(client, world.key[0], pod) for pod in troubled)),
        asyncio.gather(*(_weights_log(client, world.key[0], pod) for pod in troubled)),
    )
    names = [pod.name for pod in troubled]
    return replace(
        world,
        events=dict(zip(names, events, strict=True)),
        logs=dict(zip(names, logs, strict=True)),
        weights_logs=dict(zip(names, weights, strict=True)),
    )


async def observe_groups(client: KubeClient, world: World) -> World:
    """The world, with the events about groups that are not whole or do not serve."""
    sets = world.of(resources.LEADER_WORKER_SET)
    asked = {name: sets[name] for name in troubled_sets(world)}
    for name in list(asked):
        groups = [short for short in short_of(world, name) if short != name]
        asked |= dict.fromkeys(groups[:SHORT_GROUPS], sets[name])
    told = await asyncio.gather(*(_group_events(client, name, keeper) for name, keeper in asked.items()))
    return replace(world, group_events=dict(zip(asked, told, strict=True)))


async def namespace_terminating(client: KubeClient, namespace: str) -> bool:
    """Whether the namespace is being deleted, or gone already."""
    found = await client.get(resources.NAMESPACE, None, namespace)
    return found is None or found["metadata"].get("deletionTimestamp") is not None


async def _list(client: KubeClient, kind: Resource, namespace: str, labels: Mapping[str, str]) -> list[Manifest] | None:
    try:
        return await client.list(kind, namespace, labels=labels)
    except NotServed:
        return None


async def _pods(client: KubeClient, world: World, labels: Mapping[str, str]) -> tuple[Pod, ...]:
    """One pod a replica, of the service's revisions, oldest first. One that only wears the labels is not among them."""
    listed = await client.list(resources.POD, world.key[0], labels=labels)
    return _in_order(read_pod(manifest, REVISION_LABEL) for manifest in listed if _is_replica(manifest, world))


async def _workers(client: KubeClient, world: World) -> tuple[Pod, ...]:
    """The pods that help leaders; asked for only where there are LeaderWorkerSets."""
    sets = world.of(resources.LEADER_WORKER_SET)
    if not sets:
        return ()
    labels = search_labels(world.key[1]) | {NAME_LABEL: WORKER_NAME}
    found = []
    for manifest in await client.list(resources.POD, world.key[0], labels=labels):
        leader = _owner(manifest, "StatefulSet")
        if leader.rpartition("-")[0] in sets and not _is_older(manifest, world):
            found.append(replace(read_pod(manifest, REVISION_LABEL), leader=leader))
    return _in_order(found)


def _is_replica(manifest: Manifest, world: World) -> bool:
    """A Deployment's pods have a ReplicaSet between; a LeaderWorkerSet's leaders a StatefulSet of its very name."""
    if _is_older(manifest, world):
        return False
    deployments, sets = world.of(resources.DEPLOYMENT), world.of(resources.LEADER_WORKER_SET)
    replica_set = _owner(manifest, "ReplicaSet")
    return replica_set.rpartition("-")[0] in deployments or _owner(manifest, "StatefulSet") in sets


def _is_older(manifest: Manifest, world: World) -> bool:
    """Whether it is of a service of the same name that was deleted; its last pods are on their way out."""
    metadata = (world.service or {}).get("metadata", {})
    return str(manifest["metadata"].get("creationTimestamp", "")) < str(metadata.get("creationTimestamp", ""))


def _owner(manifest: Manifest, kind: str) -> str:
    """The name of the controller, where it is of `kind`; empty for any other."""
    owners = manifest["metadata"].get("ownerReferences") or ()
    return next((str(one["name"]) for one in owners if one.get("controller") and one["kind"] == kind), "")


def _in_order(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    return tuple(sorted(pods, key=lambda pod: (pod.created or "", pod.name)))


async def _autoscaler(client: KubeClient, world: World) -> str | None:
    """The HorizontalPodAutoscaler that targets the service, if any; KEDA's ScaledObject makes one too."""
    try:
        listed = await client.list(resources.HORIZONTAL_POD_AUTOSCALER, world.key[0])
    except NotServed:
        return None
    for scaler in listed:
        target = scaler.get("spec", {}).get("scaleTargetRef", {})
        if (target.get("kind"), target.get("name")) == (resources.LLM_SERVICE.kind, world.key[1]):
            return str(scaler["metadata"]["name"])
    return None


async def _missing_claim(client: KubeClient, world: World) -> MissingClaim | None:
    """The PersistentVolumeClaim that the spec names and that is not there."""
    for path in _CLAIMS:
        found = field_at(world.service or {}, path)
        if isinstance(found, str) and not await client.get(resources.PERSISTENT_VOLUME_CLAIM, world.key[0], found):
            return MissingClaim(found, path)
    return None


async def _events(client: KubeClient, namespace: str, pod: Pod) -> tuple[str, ...]:
    found = await client.list(resources.EVENT, namespace, field_selector=f"involvedObject.uid={pod.uid}")
    found.sort(key=last_seen)
    return tuple(
        f"{event.get('reason', '')}: {event.get('message', '')}"
        for event in found
        if event.get("type") == "Warning" or event.get("reason") in _WANTED_EVENTS
    )


async def _group_events(client: KubeClient, name: str, keeper: Manifest) -> tuple[KeeperEvent, ...]:
    """About objects called `name` that make pods for `keeper`; an older object of the name does not speak."""
    metadata = keeper["metadata"]
    created = datetime.fromisoformat(metadata["creationTimestamp"])  # in whole seconds, as many events are
    found = await client.list(resources.EVENT, metadata["namespace"], field_selector=f"involvedObject.name={name}")
    return tuple(
        KeeperEvent(kind, event.get("reason", ""), event.get("message", ""), times_seen(event), int(at.timestamp()))
        for event in sorted(found, key=last_seen)
        if (kind := event["involvedObject"].get("kind", "")) in MAKERS
        and (at := last_seen(event).replace(microsecond=0)) >= created
    )


async def _log(client: KubeClient, namespace: str, pod: Pod) -> str:
    previous = needs_log(pod.main)
    if pod.main is None or previous is None:
        return ""
    return await _read_log(client, namespace, pod.name, pod.main.name, previous=previous)


async def _weights_log(client: KubeClient, namespace: str, pod: Pod) -> str:
    weights = pod.init(WEIGHTS_CONTAINER)
    if weights is None or not (weights.running_since or weights.failure):
        return ""
    previous = bool(needs_log(weights)) and not weights.running_since  # of a new try, the log tells how far it is
    return await _read_log(client, namespace, pod.name, WEIGHTS_CONTAINER, previous=previous)


async def _read_log(client: KubeClient, namespace: str, pod: str, container: str, *, previous: bool) -> str:
    """The end of a log; empty where the node has none (any more): a log helps, and is never needed."""
    try:
        return await client.logs(namespace, pod, container, tail_lines=LOG_LINES, previous=previous)
    except KubeError:
        return ""
