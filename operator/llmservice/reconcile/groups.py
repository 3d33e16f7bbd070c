"""Groups of pods that are not whole, or do not last: what is to be asked of them, and what the answers say. Pure."""

from __future__ import annotations

from llmservice.diagnose.finding import Finding
from llmservice.diagnose.keepers import LEADER_WORKER_SET, STATEFUL_SET, missing_pods_finding, recreated_finding
from llmservice.diagnose.pod import Pod
from llmservice.kube import resources
from llmservice.reconcile.world import World
from llmservice.workload.keeper import revision_of_keeper


def troubled_sets(world: World) -> list[str]:
    """LeaderWorkerSets that lack pods, or that have pods that do not serve."""
    return [
        name
        for name in world.of(resources.LEADER_WORKER_SET)
        if short_of(world, name) or any(not pod.ready for pod in pods_of(world, name))
    ]


def short_of(world: World, name: str) -> list[str]:
    """StatefulSets that have fewer pods than the LeaderWorkerSet asks for: its own, and those of its leaders."""
    replicas = int(world.of(resources.LEADER_WORKER_SET)[name]["spec"].get("replicas", 1))
    size = _size(world, name)
    pods = pods_of(world, name)
    leaders = [pod.name for pod in pods if not pod.leader]
    helped = [leader for leader in leaders if sum(pod.leader == leader for pod in pods) < size - 1]
    return [*([name] if len(leaders) < replicas else []), *helped]


def _size(world: World, name: str) -> int:
    """Pods of each group of a LeaderWorkerSet, one a node."""
    return int(world.of(resources.LEADER_WORKER_SET)[name]["spec"]["leaderWorkerTemplate"].get("size", 1))


def pods_of(world: World, name: str) -> list[Pod]:
    """The pods of a LeaderWorkerSet's groups that are there and stay."""
    return [pod for pod in world.all_pods if pod.alive and pod.replica.rpartition("-")[0] == name]


def group_findings(world: World) -> list[tuple[str, Finding]]:
    """What keeps groups from being whole or from lasting, each with its revision."""
    found = []
    for name in troubled_sets(world):
        revision = revision_of_keeper(world.of(resources.LEADER_WORKER_SET)[name])
        told = world.group_events.get(name, ())
        own = [event for event in told if event.kind == LEADER_WORKER_SET]
        for short in short_of(world, name):
            made = [event for event in world.group_events.get(short, ()) if event.kind == STATEFUL_SET]
            if finding := missing_pods_finding(short, [*own, *made]):
                found.append((revision, finding))
        size = _size(world, name)
        waiting = {pod.replica: None for pod in pods_of(world, name) if not pod.ready}
        found += [(revision, finding) for leader in waiting if (finding := recreated_finding(leader, size, own))]
    return found
