"""Reads nodes, and what pods have taken of them, for every service at once: one look serves all that ask soon after.

Nodes change seldom and are looked at every minute; what is taken is looked at only while some replica has no node.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from llmservice.api.expressions import ExpressionError, evaluate
from llmservice.api.fleet import Pool
from llmservice.diagnose.pool import Node, PoolSeen, see_pool
from llmservice.kube import resources
from llmservice.kube.client import KubeClient
from llmservice.kube.clock import Clock
from llmservice.kube.errors import Forbidden, NotServed
from llmservice.kube.resources import Manifest, Resource

NODES_SECONDS: Final = 60.0
WAITING_SECONDS: Final = 5.0
"""How old a look may be: for what nodes are, and for what is free on them."""

_KEEPS_AWAY: Final = frozenset({"NoSchedule", "NoExecute"})
_Device = tuple[str, str, str]
"""Driver, pool of devices, device: what an allocation names."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Look:
    """What was listed at one moment. `taken` is empty where nobody asked for it."""

    at: float
    nodes: tuple[Node, ...]
    counted: bool
    devices: tuple[tuple[str, str, Mapping[str, Any], bool], ...] = ()
    """Node, driver, attributes as CEL sees them, and whether somebody has it."""
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass
class FleetView:
    """The nodes as seen through one client. `namespaces`: those whose pods the operator may list; empty for all."""

    client: KubeClient
    clock: Clock
    namespaces: tuple[str, ...] = ()
    _look: _Look | None = None
    _refused: bool = False
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def pool(
        self,
        pool: Pool,
        resource: str,
        tolerations: tuple[Mapping[str, Any], ...] = (),
        *,
        claimed: bool = False,
        waiting: bool = False,
    ) -> PoolSeen | None:
        """The pool's nodes; None where the operator may not read nodes. `waiting`: with what is free on them.

        `claimed`: `resource` is a DeviceClass, whose devices are counted in ResourceSlices and ResourceClaims.
        """
        look = await self._fresh(counting=waiting)
        if look is None:
            return None
        nodes = _with_devices(look, resource, pool.device_selectors) if claimed else look.nodes
        return see_pool(pool, resource, nodes, tolerations, complete=not self.namespaces)

    async def _fresh(self, *, counting: bool) -> _Look | None:
        async with self._one:
            oldest = self.clock.monotonic() - (WAITING_SECONDS if counting else NODES_SECONDS)
            if self._look is not None and self._look.at >= oldest and (self._look.counted or not counting):
                return self._look
            if self._refused:
                return None
            try:
                self._look = await self._take(counting=counting)
            except Forbidden as error:
                log.warning("shortages are told without what is free: nodes cannot be read: %s", error.message)
                self._refused = True
                return None
            return self._look

    async def _take(self, *, counting: bool) -> _Look:
        at = self.clock.monotonic()
        if not counting:
            return _Look(at, tuple(_node(one, {}) for one in await self.client.list(resources.NODE)), counted=False)
        nodes, pods, slices, claims, classes = await asyncio.gather(
            self.client.list(resources.NODE),
            self._of_namespaces(resources.POD),
            self._optional(resources.RESOURCE_SLICE),
            self._optional(resources.RESOURCE_CLAIM),
            self._optional(resources.DEVICE_CLASS),
        )
        taken = _taken(pods)
        return _Look(
            at,
            tuple(_node(one, taken.get(one["metadata"]["name"], {})) for one in nodes),
            counted=True,
            devices=tuple(_devices(slices, _allocated(claims))),
            classes={one["metadata"]["name"]: _selectors(one) for one in classes},
        )

    async def _of_namespaces(self, resource: Resource) -> list[Manifest]:
        listed = await asyncio.gather(
            *(self.client.list(resource, namespace) for namespace in self.namespaces or (None,))
        )
        return [one for part in listed for one in part]

    async def _optional(self, resource: Resource) -> list[Manifest]:
        """Objects of dynamic resource allocation; none where the cluster has no such API, or they may not be read."""
        try:
            return await self._of_namespaces(resource) if resource.namespaced else await self.client.list(resource)
        except (NotServed, Forbidden):
            return []


def _node(manifest: Manifest, taken: Mapping[str, int]) -> Node:
    metadata, spec = manifest["metadata"], manifest.get("spec") or {}
    offered = (manifest.get("status") or {}).get("allocatable") or {}
    return Node(
        name=metadata["name"],
        labels=metadata.get("labels") or {},
        taints=tuple(taint for taint in spec.get("taints") or () if taint.get("effect") in _KEEPS_AWAY),
        open=not spec.get("unschedulable", False),
        offered={name: int(count) for name, count in offered.items() if "/" in name and str(count).isdecimal()},
        taken=taken,
    )


def _taken(pods: Iterable[Manifest]) -> dict[str, dict[str, int]]:
    """Extended resources by node, of pods that have not ended. Init containers ask for none of what they share."""
    found: dict[str, dict[str, int]] = {}
    for pod in pods:
        spec, status = pod.get("spec") or {}, pod.get("status") or {}
        node = spec.get("nodeName")
        if not node or status.get("phase") in {"Succeeded", "Failed"}:
            continue
        mine = found.setdefault(node, {})
        for name, count in _requested(spec).items():
            mine[name] = mine.get(name, 0) + count
    return found


def _requested(spec: Mapping[str, Any]) -> dict[str, int]:
    """What one pod holds: the sum over its containers, or what one init container asks for, whichever is more."""
    total: dict[str, int] = {}
    for container in spec.get("containers") or ():
        for name, count in _extended(container).items():
            total[name] = total.get(name, 0) + count
    for container in spec.get("initContainers") or ():
        for name, count in _extended(container).items():
            total[name] = max(total.get(name, 0), count)
    return total


def _extended(container: Mapping[str, Any]) -> dict[str, int]:
    requests = (container.get("resources") or {}).get("requests") or {}
    return {name: int(count) for name, count in requests.items() if "/" in name and str(count).isdecimal()}


def _allocated(claims: Iterable[Manifest]) -> set[_Device]:
    found = set()
    for claim in claims:
        allocation = (claim.get("status") or {}).get("allocation") or {}
        for one in (allocation.get("devices") or {}).get("results") or ():
            if not one.get("adminAccess"):
                found.add((one["driver"], one["pool"], one["device"]))
    return found


def _devices(slices: Iterable[Manifest], allocated: set[_Device]) -> Iterable[tuple[str, str, Mapping[str, Any], bool]]:
    """Devices of nodes, from the newest generation of each pool of devices."""
    newest: dict[tuple[str, str], int] = {}
    for one in slices:
        pool = one["spec"]["pool"]
        key = one["spec"]["driver"], pool["name"]
        newest[key] = max(newest.get(key, 0), pool["generation"])
    for one in slices:
        spec = one["spec"]
        driver, pool = spec["driver"], spec["pool"]
        if not spec.get("nodeName") or pool["generation"] < newest[driver, pool["name"]]:
            continue
        for device in spec.get("devices") or ():
            used = (driver, pool["name"], device["name"]) in allocated
            yield spec["nodeName"], driver, _for_cel(driver, device), used


def _for_cel(driver: str, device: Mapping[str, Any]) -> Mapping[str, Any]:
    """A device as expressions see it: attributes by domain, the driver's own where the name has none."""
    attributes: dict[str, dict[str, Any]] = {}
    for name, typed in (device.get("attributes") or {}).items():
        domain, _, short = name.rpartition("/")
        attributes.setdefault(domain or driver, {})[short] = next(iter(typed.values()), None)
    return {"driver": driver, "attributes": attributes, "capacity": {}}


def _selectors(device_class: Manifest) -> tuple[str, ...]:
    return tuple(
        one["cel"]["expression"] for one in (device_class.get("spec") or {}).get("selectors") or () if one.get("cel")
    )


def _with_devices(look: _Look, name: str, own: Iterable[str]) -> tuple[Node, ...]:
    """The nodes with the devices of one DeviceClass, as if they were an extended resource of its name."""
    expressions = [*look.classes.get(name, ()), *own]
    offered: dict[str, int] = {}
    taken: dict[str, int] = {}
    for node, _driver, device, used in look.devices:
        if name in look.classes and all(_meets(device, expression) for expression in expressions):
            offered[node] = offered.get(node, 0) + 1
            taken[node] = taken.get(node, 0) + used
    return tuple(
        Node(
            node.name,
            node.labels,
            node.taints,
            node.open,
            {**node.offered, name: offered.get(node.name, 0)},
            {**node.taken, name: taken.get(node.name, 0)},
        )
        for node in look.nodes
    )


def _meets(device: Mapping[str, Any], expression: str) -> bool:
    try:
        return bool(evaluate(expression, {"device": device}))
    except ExpressionError:
        return False  # an attribute that this device has not, as the scheduler would say
