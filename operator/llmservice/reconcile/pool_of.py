"""The pool of one service as its nodes are: looked at in each pass, and what the plan may take from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from llmservice.api.fleet import FleetDefaults, Pool
from llmservice.api.placement import Allocation
from llmservice.capacity.accelerators import find_accelerator
from llmservice.reconcile.fleet_view import FleetView
from llmservice.reconcile.world import World
from llmservice.workload.claims import device_class, device_selectors


async def see_pool_of(world: World, fleet: FleetDefaults, view: FleetView | None) -> World:
    """The world with the nodes of the service's pool; as it was where there is nothing to look at."""
    placement = _placement(world)
    pool = fleet.pools.get(str(placement.get("pool")))
    if view is None or pool is None:
        return world
    claimed = placement.get("allocation") == Allocation.RESOURCE_CLAIM.value
    resource = device_class(pool) if claimed else resource_of(pool)
    if not resource:
        return world
    if claimed:
        pool = pool.model_copy(update={"device_selectors": device_selectors(pool)})
    without_node = [pod for pod in world.pods if pod.alive and _has_no_node(pod.conditions)]
    tolerations = without_node[0].tolerations if without_node else ()
    seen = await view.pool(pool, resource, tolerations, claimed=claimed, waiting=bool(without_node))
    return replace(world, pool=seen)


def as_seen(fleet: FleetDefaults, world: World) -> FleetDefaults:
    """The fleet for the plan: how the pool's GPUs are shared is what the nodes say, unless the fleet says it."""
    name = str(_placement(world).get("pool"))
    pool = fleet.pools.get(name)
    if pool is None or world.pool is None or pool.sharing is not None or world.pool.sharing is None:
        return fleet
    shared = pool.model_copy(update={"sharing": world.pool.sharing})
    return fleet.model_copy(update={"pools": {**fleet.pools, name: shared}})


def resource_of(pool: Pool) -> str:
    """The extended resource that one accelerator of the pool is; empty on a CPU."""
    known = find_accelerator(pool.accelerator)
    return pool.resource or (known.resource if known else "")


def _placement(world: World) -> Mapping[str, Any]:
    """As stored: the object may be one that cannot be parsed."""
    spec = (world.service or {}).get("spec")
    placement = spec.get("placement") if isinstance(spec, dict) else None
    return placement if isinstance(placement, dict) else {}


def _has_no_node(conditions: Mapping[str, Mapping[str, Any]]) -> bool:
    return conditions.get("PodScheduled", {}).get("status") == "False"
