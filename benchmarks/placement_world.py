"""A hundred services of mixed shapes over fifty simulated nodes.

Nodes have no kubelet and no kwok: pods get a node and never run, so nothing but placement is looked at.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from cluster.simulated import manifest as simulated_node
from llmservice.kube import resources
from llmservice.kube.errors import Unavailable
from llmservice.kube.real import RealKube
from llmservice.kube.resources import Manifest

USER: Final = "placement"
ZONE: Final = "topology.kubernetes.io/zone"
POOL_LABEL: Final = "example.com/placement-pool"
DRIVER: Final = "gpu.nvidia.com"
GPUS: Final = 8
AT_ONCE: Final = 8
"""Services applied side by side."""
TRIES: Final = 20


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
        """All of them, as fast as the API server takes them."""
        turn = asyncio.Semaphore(AT_ONCE)

        async def one(number: int, shape: Shape) -> None:
            async with turn:
                await self._apply(self._service(number, shape))

        await asyncio.gather(*(one(number, shape) for number, shape in enumerate(self.shapes)))

    async def _apply(self, manifest: Manifest) -> None:
        """Applied again where no answer came in time: the API server may be short of processor."""
        for _ in range(TRIES - 1):
            try:
                await self.client.apply(manifest, field_manager=USER)
            except Unavailable:
                continue
            return
        await self.client.apply(manifest, field_manager=USER)

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
