"""A judge of how services were placed over simulated nodes.

It works from nodes, pods, ResourceSlices and ResourceClaims alone, and knows nothing of how the operator counts.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from benchmarks.placement_world import GPUS, POOL_LABEL, POOLS, ZONE, Shape, World
from llmservice.kube import resources
from llmservice.kube.resources import Manifest


@dataclass
class Verdict:
    """What the judge found. `wrong` says what is not as it must be, in words; `undecided` pods have no answer yet."""

    pods: int = 0
    placed: int = 0
    undecided: int = 0
    short: int = 0
    told: int = 0
    wrong: list[str] = field(default_factory=list)
    untold: list[str] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """Whether every pod is where it belongs or cannot be, and every shortage is told exactly."""
        return self.pods > 0 and not (self.undecided or self.wrong or self.untold)


async def judge(world: World) -> Verdict:
    """Looks at the cluster once."""
    client, space = world.client, world.namespace
    nodes, pods, claims, services = await asyncio.gather(
        client.list(resources.NODE, labels=None),
        client.list(resources.POD, space),
        client.list(resources.RESOURCE_CLAIM, space),
        client.list(resources.LLM_SERVICE, space),
    )
    mine = {node["metadata"]["name"]: node for node in nodes if POOL_LABEL in (node["metadata"].get("labels") or {})}
    return _Judge(world, mine, pods, claims).verdict(services)


class _Judge:
    """One look."""

    def __init__(self, world: World, nodes: dict[str, Manifest], pods: list[Manifest], claims: list[Manifest]) -> None:
        self.world = world
        self.nodes = {
            name: node for name, node in nodes.items() if node["metadata"]["labels"][POOL_LABEL].startswith(world.mark)
        }
        self.claims = {claim["metadata"]["name"]: claim for claim in claims}
        self.pods: dict[str, list[Manifest]] = defaultdict(list)
        for pod in pods:
            if not pod["metadata"].get("deletionTimestamp"):
                self.pods[pod["metadata"]["labels"]["app.kubernetes.io/instance"]].append(pod)
        self.taken: Counter[str] = Counter()
        self.found = Verdict()

    def verdict(self, services: Iterable[Manifest]) -> Verdict:
        numbered = list(enumerate(self.world.shapes))
        for number, shape in numbered:
            self._place(self.world.name(number), shape)
        for name, used in self.taken.items():
            if used > self._offered(name):
                self.found.wrong.append(f"node {name} has {self._offered(name)} and gave {used}")
        told = {service["metadata"]["name"]: service for service in services}
        for number, shape in numbered:
            name = self.world.name(number)
            self._compare(name, shape, told.get(name, {}).get("status") or {})
        return self.found

    def _place(self, name: str, shape: Shape) -> None:
        found, pods = self.found, self.pods[name]
        found.pods += len(pods)
        if len(pods) != shape.replicas:
            found.undecided += 1
        for pod in pods:
            node = pod["spec"].get("nodeName")
            if node is None:
                found.undecided += not self._refused(pod)
                continue
            found.placed += 1
            got = self._got(pod, node)
            self.taken[node] += got
            if node not in self.nodes or self._pool(node) != shape.pool:
                found.wrong.append(f"{name}: a pod on {node}, outside of pool {shape.pool}")
            elif got != shape.each:
                found.wrong.append(f"{name}: {got} accelerators instead of {shape.each}")
        if shape.spread == "Required":
            self._check_spread(name, shape, pods)

    def _check_spread(self, name: str, shape: Shape, pods: list[Manifest]) -> None:
        zones = next(pool.zones for pool in POOLS if pool.name == shape.pool)
        count = Counter(self._zone(node) for pod in pods if (node := pod["spec"].get("nodeName")) in self.nodes)
        if max(count.values(), default=0) - min(count[zone] for zone in zones) > 1:
            self.found.wrong.append(f"{name}: {dict(count)} over zones {zones}")

    def _compare(self, name: str, shape: Shape, status: dict[str, Any]) -> None:
        """A shortage must be told in exactly these numbers; where there is none, none may be told."""
        waiting = [pod for pod in self.pods[name] if not pod["spec"].get("nodeName")]
        said, summary = status.get("shortage"), status.get("summary")
        ready: dict[str, Any] = next((one for one in status.get("conditions") or () if one["type"] == "Ready"), {})
        if not waiting:
            if said is not None or ready.get("reason") == "WaitingForGPU":
                self.found.untold.append(f"{name}: told of a shortage, and every replica has a node")
            return
        self.found.short += 1
        room = [node for node, _ in self._of(shape.pool) if self._free(node) >= shape.each]
        if room and shape.spread != "Required":
            self.found.wrong.append(f"{name}: waits, and {room[0]} has room")
        expected = {
            "resource": self.world.resource(shape),
            "replicas": len(waiting),
            "missing": len(waiting) * shape.each,
            "domains": list(self._domains(shape.pool)),
        }
        count = "1 replica waits" if len(waiting) == 1 else f"{len(waiting)} replicas wait"
        words = f"{count} for {expected['missing']} {expected['resource']} in pool {shape.pool} ("
        text = next((one["message"] for one in status.get("conditions") or () if words in one.get("message", "")), "")
        if said == expected and text and summary == "WaitingForGPU":
            self.found.told += 1
        else:
            self.found.untold.append(f"{name}: {summary}, {said} instead of {expected}; {ready.get('message')}")

    def _domains(self, pool: str) -> Iterator[dict[str, Any]]:
        by_zone: dict[str, list[str]] = defaultdict(list)
        for node, zone in self._of(pool):
            by_zone[zone].append(node)
        for zone, nodes in sorted(by_zone.items()):
            free = [self._free(node) for node in nodes]
            offered = sum(self._offered(node) for node in nodes)
            yield {"name": zone, "nodes": len(nodes), "offered": offered, "free": sum(free), "largest": max(free)}

    def _of(self, pool: str) -> list[tuple[str, str]]:
        return [(name, self._zone(name)) for name in self.nodes if self._pool(name) == pool]

    def _pool(self, node: str) -> str:
        return str(self.nodes[node]["metadata"]["labels"][POOL_LABEL]).removeprefix(f"{self.world.mark}-")

    def _zone(self, node: str) -> str:
        return str(self.nodes[node]["metadata"]["labels"][ZONE])

    def _offered(self, node: str) -> int:
        pool = next(pool for pool in POOLS if pool.name == self._pool(node))
        return GPUS if pool.claimed else int(self.nodes[node]["status"]["allocatable"][pool.resource])

    def _free(self, node: str) -> int:
        return self._offered(node) - self.taken[node]

    def _got(self, pod: Manifest, node: str) -> int:
        """Accelerators that the pod has there: what it requests, or what was allocated to its claim."""
        statuses = pod.get("status", {}).get("resourceClaimStatuses") or []
        if not statuses:
            requests = pod["spec"]["containers"][0]["resources"]["requests"]
            return sum(int(count) for name, count in requests.items() if name.startswith("nvidia.com/"))
        claim = self.claims.get(statuses[0]["resourceClaimName"], {})
        results = (claim.get("status", {}).get("allocation") or {}).get("devices", {}).get("results", [])
        return len({one["device"] for one in results if one["pool"] == node})

    def _refused(self, pod: Manifest) -> bool:
        conditions = pod.get("status", {}).get("conditions") or []
        return any(one["type"] == "PodScheduled" and one["status"] == "False" for one in conditions)
