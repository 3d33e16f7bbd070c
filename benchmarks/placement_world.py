"""A hundred services of mixed shapes over fifty simulated nodes, and a judge of how they were placed.

The judge works from nodes, pods, ResourceSlices and ResourceClaims alone, and knows nothing of how the operator counts.
Nodes have no kubelet and no kwok: pods get a node and never run, so nothing but placement is looked at.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from cluster.simulated import manifest as simulated_node
from llmservice.kube import resources
from llmservice.kube.real import RealKube
from llmservice.kube.resources import Manifest

USER: Final = "placement"
ZONE: Final = "topology.kubernetes.io/zone"
POOL_LABEL: Final = "example.com/placement-pool"
DRIVER: Final = "gpu.nvidia.com"
GPUS: Final = 8


@dataclass(frozen=True)
class NodePool:
    """Alike nodes: `kind` as the simulator names it, `nodes` of them over `zones`; `claimed`: GPUs by claims only."""

    name: str
    kind: str
    nodes: int
    zones: tuple[str, ...]
    resource: str = "nvidia.com/gpu"
    claimed: bool = False

    @property
    def accelerator(self) -> str:
        """Its name in the catalogue."""
        return self.kind


POOLS: Final = (
    NodePool("large", "a100-80gb", 24, ("zone-a", "zone-b", "zone-c")),
    NodePool("small", "a100-40gb", 12, ("zone-a", "zone-b")),
    NodePool("sliced", "a100-80gb-mig-3g.40gb", 8, ("zone-a", "zone-c"), "nvidia.com/mig-3g.40gb"),
    NodePool("claimed", "a100-80gb", 6, ("zone-b",), DRIVER, claimed=True),
)


@dataclass(frozen=True)
class Shape:
    """What one service asks for: so many replicas of so many accelerators each."""

    pool: str
    each: int
    replicas: int
    spread: str = "Preferred"


def shapes() -> list[Shape]:
    """A hundred: two pools are asked for more than they have, two for less."""
    large = [Shape("large", (1, 2, 4, 8, 2)[n % 5], 1 + n % 3) for n in range(42)]
    small = [Shape("small", (1, 2, 4)[n % 3], 1 + n % 2, "Required" if n % 4 == 0 else "Preferred") for n in range(28)]
    sliced = [Shape("sliced", 1, 1 + n % 7) for n in range(20)]
    claimed = [Shape("claimed", (2, 4, 8)[n % 3], 1 + n % 2) for n in range(10)]
    return [*large, *small, *sliced, *claimed]


@dataclass(frozen=True)
class World:
    """The nodes and services of one run; `mark` keeps them apart from those of another in the same cluster."""

    client: RealKube
    namespace: str
    mark: str
    shapes: list[Shape] = field(default_factory=shapes)

    def fleet(self) -> Manifest:
        """The fleet that the operator is given. Every taint is tolerated: nobody keeps these nodes ready."""
        return {"pools": {pool.name: self._pool(pool) for pool in POOLS}, "builtInPools": []}

    def _pool(self, pool: NodePool) -> Manifest:
        return {
            "accelerator": pool.accelerator,
            "nodeSelector": {POOL_LABEL: self._label(pool)},
            "template": {"tolerations": [{"operator": "Exists"}]},
            **({"deviceClass": self._label(pool)} if pool.claimed else {}),
        }

    def _label(self, pool: NodePool) -> str:
        return f"{self.mark}-{pool.name}"

    def resource(self, shape: Shape) -> str:
        """What a shortage of this shape is counted in."""
        pool = next(pool for pool in POOLS if pool.name == shape.pool)
        return self._label(pool) if pool.claimed else pool.resource

    def name(self, number: int) -> str:
        """The name of a service."""
        return f"chat-{number:03d}"

    async def build(self) -> None:
        """Nodes, what their drivers publish, and then the services."""
        await asyncio.gather(*(self._node(pool, number) for pool in POOLS for number in range(pool.nodes)))
        for pool in POOLS:
            if pool.claimed:
                await self.client.apply(self._device_class(pool), field_manager=USER)

    async def apply_services(self) -> None:
        """All at once."""
        await asyncio.gather(
            *(self.client.apply(self._service(n, shape), field_manager=USER) for n, shape in enumerate(self.shapes))
        )

    async def tear_down(self) -> None:
        """Everything that no namespace takes along."""
        gone = []
        for pool in POOLS:
            names = [f"{self._label(pool)}-{number}" for number in range(pool.nodes)]
            gone += [(resources.NODE, name) for name in names]
            if pool.claimed:
                gone += [(resources.RESOURCE_SLICE, name) for name in names]
                gone.append((resources.DEVICE_CLASS, self._label(pool)))
        await asyncio.gather(*(self.client.delete(resource, None, name) for resource, name in gone))

    async def _node(self, pool: NodePool, number: int) -> None:
        node = simulated_node(pool.kind, number, GPUS)
        name = f"{self._label(pool)}-{number}"
        zone = pool.zones[number % len(pool.zones)]
        node["metadata"] = {
            "name": name,
            "labels": node["metadata"]["labels"]
            | {POOL_LABEL: self._label(pool), ZONE: zone, "kubernetes.io/hostname": name},
        }
        if pool.claimed:
            del node["status"]["capacity"]["nvidia.com/gpu"]
        await self.client.apply(node, field_manager=USER)
        await self.client.apply_status(
            {key: node[key] for key in ("apiVersion", "kind", "metadata", "status")}, field_manager=USER
        )
        if pool.claimed:
            await self.client.apply(resource_slice(name, self._label(pool)), field_manager=USER)

    def _device_class(self, pool: NodePool) -> Manifest:
        expression = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].pool == '{self._label(pool)}'"
        return {
            "apiVersion": resources.DEVICE_CLASS.api_version,
            "kind": "DeviceClass",
            "metadata": {"name": self._label(pool)},
            "spec": {"selectors": [{"cel": {"expression": expression}}]},
        }

    def _service(self, number: int, shape: Shape) -> Manifest:
        claimed = next(pool for pool in POOLS if pool.name == shape.pool).claimed
        return {
            "apiVersion": resources.LLM_SERVICE.api_version,
            "kind": "LLMService",
            "metadata": {"name": self.name(number), "namespace": self.namespace},
            "spec": {
                "model": {"source": {"huggingFace": {"repo": "example/unknown", "revision": "a" * 40}}},
                "engine": {"backend": "vllm", "parallelism": {"tensor": shape.each}},
                "placement": {
                    "pool": shape.pool,
                    "spread": shape.spread,
                    **({"allocation": "ResourceClaim"} if claimed else {}),
                },
                "scaling": {"minReplicas": shape.replicas, "maxReplicas": shape.replicas},
                "tuning": {"mode": "Off"},
            },
        }


def resource_slice(node: str, label: str, gpus: int = GPUS) -> Manifest:
    """What NVIDIA's driver would publish for a node of GPUs, in short."""
    attributes = {
        "type": {"string": "gpu"},
        "productName": {"string": "NVIDIA A100-SXM4-80GB"},
        "pool": {"string": label},
    }
    devices = [{"name": f"gpu-{index}", "attributes": attributes} for index in range(gpus)]
    return {
        "apiVersion": resources.RESOURCE_SLICE.api_version,
        "kind": "ResourceSlice",
        "metadata": {"name": node},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


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
