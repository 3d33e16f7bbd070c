"""Bringing the cluster up, whatever state it is in, and saying what runs."""

from __future__ import annotations

import enum
import os
import time
from dataclasses import dataclass

from cluster import (
    binaries,
    certificates,
    controlplane,
    network,
    node,
    packages,
    ports,
    processes,
    statefolder,
    teardown,
)
from cluster.api import Api
from cluster.errors import ClusterError
from cluster.locks import held
from cluster.processes import Component
from cluster.progress import say
from cluster.settings import Settings


class Tier(enum.StrEnum):
    """How much of a cluster."""

    API = "api"  # API server, controllers, scheduler, simulated nodes: no container runs
    FULL = "full"  # and a real node with kubelet, containerd, kube-proxy and DNS


@dataclass(frozen=True)
class ComponentStatus:
    """One line of `status`."""

    name: str
    pid: int | None
    memory_mib: int
    healthy: bool


def up(settings: Settings, tier: Tier) -> None:
    """Start what does not run; a second call finds nothing to do. Safe beside another run."""
    begin = time.monotonic()
    if os.geteuid() != 0:
        raise ClusterError("the embedded cluster makes a bridge and runs a kubelet: run it as root")
    needed = packages.API_TIER + (() if tier is Tier.API else packages.NODE + packages.COMPILER)
    packages.ensure(settings, needed)
    with held(settings.cache / "locks" / f"up-{settings.name}.lock", f"cluster {settings.name}"):
        statefolder.ensure(settings)
        started = _up(settings, tier)
    if started:
        say(f"cluster {settings.name} is up (tier {tier}) after {time.monotonic() - begin:.1f} s")
    else:
        say(f"cluster {settings.name} is already up (tier {tier}): nothing to do")
    say(f"export KUBECONFIG={settings.kubeconfig}")


def _up(settings: Settings, tier: Tier) -> list[str]:
    binaries.ensure(settings, binaries.API_TIER if tier is Tier.API else binaries.FULL_TIER)
    network.ensure_bridge(settings)
    address = settings.gateway
    chosen = ports.ensure(settings, address)
    certificates.ensure(settings, address, chosen["api"])
    first = [controlplane.storage(settings, chosen), controlplane.api_server(settings, chosen, address)]
    second = controlplane.controllers(settings, chosen)
    if tier is Tier.FULL:
        network.prepare_node(settings)
        first.insert(0, node.runtime(settings))
        second += node.components(settings, chosen)
    if processes.running(settings, "kube-apiserver") is None:
        ports.require_free(address, chosen["api"], "API server", "run `python3 -m cluster down` and then `up` again")
    started = _start(settings, first)
    api = Api(settings, address, chosen["api"])
    if tier is Tier.FULL:
        node.publish_dns(settings, api)
        node.provide_pause_image(settings)
    started += _start(settings, second)
    if tier is Tier.FULL:
        node.wait_ready(settings, api)
    return started


def status(settings: Settings) -> list[ComponentStatus]:
    """Every component of the full tier; those that do not run have no pid. Empty when there is no cluster."""
    chosen = ports.read(settings)
    if not chosen:
        return []
    return [_component_status(settings, component) for component in _all(settings, chosen)]


def is_up(settings: Settings, tier: Tier) -> bool:
    """Whether every component of the tier runs and is healthy."""
    statuses = {item.name: item for item in status(settings)}
    wanted = [name for name in statuses if tier is Tier.FULL or name in API_TIER_NAMES]
    return bool(statuses) and all(statuses[name].healthy for name in wanted)


API_TIER_NAMES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")


def _all(settings: Settings, chosen: dict[str, int]) -> list[Component]:
    control = [controlplane.storage(settings, chosen), controlplane.api_server(settings, chosen, settings.gateway)]
    control += controlplane.controllers(settings, chosen)
    return [*control, node.runtime(settings), *node.components(settings, chosen)]


def _component_status(settings: Settings, component: Component) -> ComponentStatus:
    current = processes.running(settings, component.name)
    if current is None:
        return ComponentStatus(component.name, None, 0, healthy=False)
    return ComponentStatus(component.name, current.pid, processes.memory_mib(current.pid), component.ready())


def _start(settings: Settings, components: list[Component]) -> list[str]:
    """Start all, then wait for each: they come up side by side."""
    reasons = {component.name: processes.ensure(settings, component) for component in components}
    if any(reasons.values()):
        say("starting " + ", ".join(f"{name} ({reason})" for name, reason in reasons.items() if reason))
    for component in components:
        processes.wait_ready(settings, component)
    return [name for name, reason in reasons.items() if reason]


def down(settings: Settings) -> None:
    """Tear everything down to nothing: processes, containers, mounts, rules, bridge, state."""
    with held(settings.cache / "locks" / f"up-{settings.name}.lock", f"cluster {settings.name}"):
        if settings.state.exists():
            statefolder.require_ours(settings)
            teardown.teardown(settings)
            statefolder.remove(settings)
    say(f"cluster {settings.name} is down: no process, mount, network rule or file of it is left")
