"""Which services share a quota, and what each was granted last: the loop's side of `capacity.quota`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from llmservice.api.fleet import FleetDefaults
from llmservice.capacity.accelerators import find_accelerator
from llmservice.capacity.quota import Claimant, Share, share_of
from llmservice.kube import resources
from llmservice.kube.client import KubeClient
from llmservice.kube.selectors import field_at
from llmservice.reconcile.pool_of import pool_name
from llmservice.reconcile.work_queue import Key


@dataclass
class Quotas:
    """What this process granted and no status tells yet: passes of two services may run side by side."""

    fleet: FleetDefaults
    _granted: dict[Key, tuple[str, int]] = field(default_factory=dict)

    async def claimants(self, client: KubeClient, key: Key, service: Mapping[str, Any]) -> tuple[Claimant, ...]:
        """The services of the namespace that take from the same pool; empty where it has no quota for them."""
        name = pool_name(service)
        pool = self.fleet.pools.get(name)
        known = find_accelerator(pool.accelerator) if pool else None
        if pool is None or pool.quota_of(key[0]) is None or (known is not None and known.is_cpu):
            return ()
        listed = await client.list(resources.LLM_SERVICE, key[0])
        return tuple(
            self._claimant(one, name)
            for one in listed
            if pool_name(one) == name and not one["metadata"].get("deletionTimestamp")
        )

    def share(self, key: Key, pool: str, claimants: tuple[Claimant, ...]) -> Share | None:
        """What the service may have; None where no quota binds it."""
        found = self.fleet.pools.get(pool)
        quota = found.quota_of(key[0]) if found else None
        if quota is None or not claimants:
            return None
        now = [replace(one, held=max(one.held, self._of(key[0], one.name, pool))) for one in claimants]
        return share_of(key[1], now, quota)

    def note(self, key: Key, pool: str, accelerators: int) -> None:
        """The service gets so many, from now on."""
        self._granted[key] = (pool, accelerators)

    def forget(self, key: Key) -> None:
        """The service is gone, or gets nothing."""
        self._granted.pop(key, None)

    def _of(self, namespace: str, name: str, pool: str) -> int:
        granted_of, count = self._granted.get((namespace, name), (pool, 0))
        return count if granted_of == pool else 0

    def _claimant(self, service: Mapping[str, Any], pool: str) -> Claimant:
        split = "spec.engine.parallelism"
        each = _count(service, f"{split}.tensor", 1) * _count(service, f"{split}.pipeline", 1)
        asked = _count(service, "spec.replicas", _count(service, "spec.scaling.minReplicas", 1))
        there = _count(service, "status.replicas", 0) if field_at(service, "status.pool") == pool else 0
        metadata = service["metadata"]
        return Claimant(metadata["name"], str(metadata.get("creationTimestamp", "")), asked * each, there * each)


def _count(service: Mapping[str, Any], path: str, default: int) -> int:
    value = field_at(service, path)
    return value if isinstance(value, int) and not isinstance(value, bool) else default
