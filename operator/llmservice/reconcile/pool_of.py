"""The pool of one service as its nodes are: looked at in each pass, and what the plan may take from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from llmservice.api.fleet import FleetDefaults
from llmservice.api.placement import Allocation, Placement
from llmservice.capacity.pools import resource_of
from llmservice.kube.selectors import field_at
from llmservice.reconcile.fleet_view import FleetView
from llmservice.reconcile.world import World
from llmservice.workload.claims import device_class, device_selectors


async def see_pool_of(world: World, fleet: FleetDefaults, view: FleetView | None) -> World:
    """The world with the nodes of the service's pool; as it was where there is nothing to look at."""
    pool = fleet.pools.get(pool_name(world.service))
    if view is None or pool is None:
        return world
    claimed = field_at(world.service or {}, "spec.placement.allocation") == Allocation.RESOURCE_CLAIM.value
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
    name = pool_name(world.service)
    pool = fleet.pools.get(name)
    if pool is None or world.pool is None or pool.sharing is not None or world.pool.sharing is None:
        return fleet
    shared = pool.model_copy(update={"sharing": world.pool.sharing})
    return fleet.model_copy(update={"pools": {**fleet.pools, name: shared}})


def pool_name(service: Mapping[str, Any] | None) -> str:
    """The pool of a service as stored, else the default: the object may be one that cannot be parsed."""
    name = field_at(service or {}, "spec.placement.pool")
    return name if isinstance(name, str) else Placement().pool


def _has_no_node(conditions: Mapping[str, Mapping[str, Any]]) -> bool:
    return conditions.get("PodScheduled", {}).get("status") == "False"
