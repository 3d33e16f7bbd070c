"""A cluster of the benchmark's own, beside whatever else runs: API server and controllers, no node."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.waiting import until
from cluster import lifecycle
from cluster.lifecycle import Tier
from cluster.locks import held
from cluster.settings import Settings, from_environment
from llmservice.api.crd import crd
from llmservice.kube import resources
from llmservice.kube.real import RealKube, connect
from llmservice.kube.resources import Manifest
from llmservice.reconcile.observe import READ_KINDS

NAME: Final = "bench-test"
NETWORKS: Final = {
    "LLMSERVICE_CLUSTER_POD_CIDR": "10.233.0.0/16",
    "LLMSERVICE_CLUSTER_SERVICE_CIDR": "10.234.0.0/16",
}
USER: Final = "benchmark"
OVERRIDES: Final = {
    "LLMSERVICE_BENCH_CLUSTER_NAME": "LLMSERVICE_CLUSTER_NAME",
    "LLMSERVICE_BENCH_CLUSTER_POD_CIDR": "LLMSERVICE_CLUSTER_POD_CIDR",
    "LLMSERVICE_BENCH_CLUSTER_SERVICE_CIDR": "LLMSERVICE_CLUSTER_SERVICE_CIDR",
}
"""Variables for two benchmarks at once on one host. Those of the user's own cluster are not taken: a benchmark tears
down what has its cluster's name."""
_TAKEN_FROM_USER: Final = ("LLMSERVICE_CACHE", "HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")


def settings() -> Settings:
    """The cluster's settings: the user's cache, and nothing else of the user's cluster."""
    kept = {name: os.environ[name] for name in _TAKEN_FROM_USER if name in os.environ}
    asked = {theirs: os.environ[ours] for ours, theirs in OVERRIDES.items() if ours in os.environ}
    return from_environment({**kept, **NETWORKS, "LLMSERVICE_CLUSTER_NAME": NAME, **asked})


@asynccontextmanager
async def own_cluster() -> AsyncIterator[tuple[Path, RealKube]]:
    """The kubeconfig and a client of a fresh cluster with the CRD in it; torn down at the end.

    One benchmark has the cluster of a name at a time; another waits, and says so.
    """
    chosen = settings()
    with held(chosen.cache / "locks" / f"{chosen.name}-benchmark.lock", "the benchmarks' cluster"):
        await asyncio.to_thread(lifecycle.down, chosen)
        try:
            await asyncio.to_thread(lifecycle.up, chosen, Tier.API)
            client = await connect(chosen.kubeconfig)
            try:
                await client.apply(crd(), field_manager=USER)
                await until(lambda: client.served(resources.LLM_SERVICE), "the API server serves LLMServices")
                yield chosen.kubeconfig, client
            finally:
                await client.close()
        finally:
            await asyncio.to_thread(lifecycle.down, chosen)


@dataclass(frozen=True)
class Services:
    """The services of one namespace, all made from one example."""

    client: RealKube
    namespace: str
    names: tuple[str, ...]

    async def make_namespace(self) -> None:
        """The namespace, empty."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        await self.client.apply(namespace, field_manager=USER)

    async def apply(self, manifest: Manifest) -> None:
        """Applies one service of each name, each with the spec of `manifest`."""
        await asyncio.gather(*(self._apply(manifest, name) for name in self.names))

    async def _apply(self, manifest: Manifest, name: str) -> None:
        named = {**manifest, "metadata": {"name": name, "namespace": self.namespace}}
        await self.client.apply(named, field_manager=USER)

    async def are(self, kind: str, reason: str) -> bool:
        """Whether the condition `kind` of every service has this reason, judged for its newest generation."""
        found = await self.client.list(resources.LLM_SERVICE, self.namespace)
        return len(found) == len(self.names) and all(_says(service, kind, reason) for service in found)

    async def are_deployed(self) -> bool:
        """Whether every service has its Deployment, which is applied last, and a status."""
        services = await self.client.list(resources.LLM_SERVICE, self.namespace)
        deployments = await self.client.list(resources.DEPLOYMENT, self.namespace)
        reported = [one for one in services if one.get("status", {}).get("observedGeneration")]
        return len(reported) == len(deployments) == len(self.names)

    async def versions(self) -> dict[str, str]:
        """The stored version of every service and of what belongs to it: whoever writes to one changes it."""
        children = [kind for kind in READ_KINDS if await self.client.served(kind)]
        kinds = [resources.LLM_SERVICE, resources.SECRET, *children]
        listed = await asyncio.gather(*(self.client.list(kind, self.namespace) for kind in kinds))
        return dict(_versions(item for items in listed for item in items))


def _says(service: Manifest, kind: str, reason: str) -> bool:
    conditions: list[dict[str, Any]] = service.get("status", {}).get("conditions", [])
    found = next((one for one in conditions if one["type"] == kind), {})
    return found.get("reason") == reason and found.get("observedGeneration") == service["metadata"]["generation"]


def _versions(manifests: Iterable[Manifest]) -> Iterable[tuple[str, str]]:
    for manifest in manifests:
        metadata = manifest["metadata"]
        yield f"{manifest['kind']}/{metadata['name']}", metadata["resourceVersion"]
