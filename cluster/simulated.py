"""Simulated GPU nodes: what the scheduler and the operator see of an A100 pool, with kwok in the kubelet's place."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from cluster.api import Api, Manifest
from cluster.errors import ClusterError
from cluster.settings import Settings

POOL_LABEL = "triton-llm.dev/pool"
SIMULATED_LABEL = "type=kwok"


@dataclass(frozen=True)
class Gpu:
    """One GPU model as GPU Feature Discovery labels it."""

    product: str
    memory_mib: int
    slices: dict[str, int]  # MIG profile -> how many fit on one GPU


# NVIDIA's MIG user guide, table "A100 profiles".
SLICES_OF_40 = {"1g.5gb": 7, "2g.10gb": 3, "3g.20gb": 2, "4g.20gb": 1, "7g.40gb": 1}
SLICES_OF_80 = {"1g.10gb": 7, "1g.20gb": 4, "2g.20gb": 3, "3g.40gb": 2, "4g.40gb": 1, "7g.80gb": 1}
GPUS = {
    "a100-40gb": Gpu("NVIDIA-A100-SXM4-40GB", 40960, SLICES_OF_40),
    "a100-80gb": Gpu("NVIDIA-A100-SXM4-80GB", 81920, SLICES_OF_80),
}


def manifest(pool: str, index: int, gpus: int) -> Manifest:
    """One node of a pool: `a100-80gb`, or `a100-80gb-mig-3g.40gb` cut into slices (strategy `mixed`)."""
    name, _, profile = pool.partition("-mig-")
    gpu = GPUS.get(name)
    if gpu is None or (profile and profile not in gpu.slices):
        slices = ", ".join(f"{key}-mig-{item}" for key, value in GPUS.items() for item in value.slices)
        raise ClusterError(f"{pool!r} is not a pool that can be simulated: choose one of {', '.join(GPUS)}, {slices}")
    resource = f"nvidia.com/mig-{profile}" if profile else "nvidia.com/gpu"
    count = gpus * gpu.slices[profile] if profile else gpus
    capacity = {"cpu": "128", "memory": "2Ti", "pods": "110", "ephemeral-storage": "10Ti", resource: str(count)}
    node = f"{pool}-{index}"
    address = {"type": "InternalIP", "address": f"198.18.{index // 250}.{index % 250 + 1}"}  # for benchmarks, RFC 2544
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node,
            "annotations": {"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"},
            "labels": {**_base_labels(node, pool), **_gpu_labels(gpu, gpus, profile, count)},
        },
        "spec": {
            "taints": [
                {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
                {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"},
            ]
        },
        "status": {"capacity": capacity, "allocatable": capacity, "addresses": [address], "phase": "Running"},
    }


def add(api: Api, pool: str, count: int, gpus: int, *, tainted: bool = True) -> None:
    """Make the nodes 0 … count-1 of a pool; those that exist are brought to this form.

    tainted: keep pods away that do not tolerate kwok's taint, as well as those that do not tolerate the GPU's.
    """
    manifests = [manifest(pool, index, gpus) for index in range(count)]
    for item in manifests:
        if not tainted:
            item["spec"]["taints"] = item["spec"]["taints"][:1]
    with ThreadPoolExecutor(8) as pool_of_threads:
        list(pool_of_threads.map(lambda item: _apply(api, item), manifests))


def remove(api: Api, pool: str | None) -> int:
    """Delete the simulated nodes of one pool or of all; returns how many."""
    names = [node["metadata"]["name"] for node in _nodes(api) if pool in (None, node["metadata"]["labels"][POOL_LABEL])]
    for name in names:
        api.delete(f"/api/v1/nodes/{name}")
    return len(names)


def pools(api: Api) -> dict[str, int]:
    """Pool -> number of its simulated nodes."""
    counts: dict[str, int] = {}
    for node in _nodes(api):
        name = node["metadata"]["labels"][POOL_LABEL]
        counts[name] = counts.get(name, 0) + 1
    return counts


def running_api(settings: Settings, ports: dict[str, int]) -> Api:
    """The API server of a cluster that is up; raises ClusterError when it is not."""
    if not ports:
        raise ClusterError(f"cluster {settings.name} is down: run `python3 -m cluster up` first")
    api = Api(settings, settings.gateway, ports["api"])
    if not api.ready():
        raise ClusterError(f"the API server of {settings.name} does not answer: `python3 -m cluster up` repairs it")
    return api


def _apply(api: Api, node: Manifest) -> None:
    path = f"/api/v1/nodes/{node['metadata']['name']}"
    api.apply(path, node)
    # A node is created without its status: capacity needs a second write.
    api.apply(f"{path}/status", {key: node[key] for key in ("apiVersion", "kind", "metadata", "status")})


def _nodes(api: Api) -> list[Manifest]:
    found = api.get(f"/api/v1/nodes?labelSelector={SIMULATED_LABEL.replace('=', '%3D')}") or {}
    items: list[Manifest] = found.get("items", [])
    return items


def _base_labels(node: str, pool: str) -> dict[str, str]:
    return {
        "type": "kwok",
        POOL_LABEL: pool,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": node,
        "node.kubernetes.io/instance-type": "simulated",
    }


def _gpu_labels(gpu: Gpu, gpus: int, profile: str, count: int) -> dict[str, str]:
    labels = {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": gpu.product,
        "nvidia.com/gpu.memory": str(gpu.memory_mib),
        "nvidia.com/gpu.count": str(gpus),
        "nvidia.com/gpu.replicas": "1",
        "nvidia.com/gpu.family": "ampere",
        "nvidia.com/gpu.compute.major": "8",
        "nvidia.com/gpu.compute.minor": "0",
        "nvidia.com/mig.capable": "true",
        "nvidia.com/mig.strategy": "mixed",
    }
    if profile:
        labels[f"nvidia.com/mig-{profile}.count"] = str(count)
        labels[f"nvidia.com/mig-{profile}.product"] = f"{gpu.product}-MIG-{profile}"
        labels["nvidia.com/mig.config"] = f"all-{profile}"
    return labels
