"""A pool's nodes as the scheduler sees them: how many accelerators each has, how many are free, and in which domain.

Pure. Whoever reads the API server makes `Node`s of what it lists; everything here is arithmetic over them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from llmservice.api.fleet import Pool, Sharing, SharingStrategy

HOSTNAME: Final = "kubernetes.io/hostname"
_STRATEGIES: Final = {"time-slicing": SharingStrategy.TIME_SLICING, "mps": SharingStrategy.MPS}
"""Values of GPU Feature Discovery's label `<resource>.sharing-strategy` (k8s-device-plugin).

Before that label there was only time-slicing, which `<resource>.replicas` alone tells of."""


@dataclass(frozen=True)
class Node:
    """One node: what it offers and what its pods have taken, by extended resource or DeviceClass.

    `taints` are those that keep pods away, `open` is False where it is cordoned.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    open: bool = True
    offered: Mapping[str, int] = field(default_factory=dict)
    taken: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Domain:
    """One failure domain of a pool: nodes that a replica may use, their accelerators, and the free ones among them.

    `largest` is the most that one of its nodes has free.
    """

    name: str
    nodes: int
    offered: int
    free: int
    largest: int


@dataclass(frozen=True)
class PoolSeen:
    """A pool's nodes together. `whole_node` is the most that one node has in all; `closed` nodes take no replica.

    `beside` are other accelerators on its nodes. `complete` is False where the operator sees the pods of some
    namespaces only: then less may be free than it counts.
    """

    resource: str
    nodes: int = 0
    whole_node: int = 0
    closed: int = 0
    domains: tuple[Domain, ...] = ()
    beside: tuple[tuple[str, int], ...] = ()
    sharing: Sharing | None = None
    complete: bool = True

    @property
    def offered(self) -> int:
        """Accelerators that replicas may use, free or not."""
        return sum(domain.offered for domain in self.domains)

    @property
    def free(self) -> int:
        """Accelerators that nobody has."""
        return sum(domain.free for domain in self.domains)

    @property
    def largest(self) -> int:
        """The most that one node has free."""
        return max((domain.largest for domain in self.domains), default=0)


def see_pool(
    pool: Pool,
    resource: str,
    nodes: Iterable[Node],
    tolerations: Sequence[Mapping[str, Any]] = (),
    *,
    complete: bool = True,
) -> PoolSeen:
    """What `nodes` offer of `resource` to replicas in `pool` that have `tolerations`."""
    mine = [node for node in nodes if pool.node_selector.items() <= node.labels.items()]
    usable = [node for node in mine if node.open and _tolerated(node, tolerations)]
    key = next((key for key in reversed(pool.topology_keys) if key != HOSTNAME), "")
    by_domain: dict[str, list[Node]] = {}
    for node in usable:
        if node.offered.get(resource, 0):
            by_domain.setdefault(node.labels.get(key, ""), []).append(node)
    return PoolSeen(
        resource=resource,
        nodes=len(mine),
        whole_node=max((node.offered.get(resource, 0) for node in mine), default=0),
        closed=len(mine) - len(usable),
        domains=tuple(_domain(name, found, resource) for name, found in sorted(by_domain.items())),
        beside=_beside(mine, resource),
        sharing=_sharing(mine, resource),
        complete=complete,
    )


def in_words(seen: PoolSeen, asked: int) -> str:
    """Where accelerators are missing for replicas of `asked` each: `zone-a: 5 of 80 free, at most 2 on one node; …`."""
    if not seen.nodes:
        return "it has no node"
    if not seen.whole_node:
        has = ", ".join(f"{count} {name}" for name, count in seen.beside) or "no accelerator"
        return f"none of its {_nodes(seen.nodes)} has {seen.resource}; they have {has}"
    if asked > seen.whole_node:
        return f"no node of it has {asked}, the largest has {seen.whole_node}"
    said = [_of_domain(domain) for domain in seen.domains[:MOST_DOMAINS]]
    more = seen.domains[MOST_DOMAINS:]
    if more:
        said.append(f"{len(more)} more: {sum(one.free for one in more)} of {sum(one.offered for one in more)} free")
    if seen.closed:
        said.append(f"{_nodes(seen.closed)} cordoned or with a taint that is not tolerated")
    if not seen.complete:
        said.append("without pods of other namespaces, which the operator does not see")
    return "; ".join(said)


MOST_DOMAINS: Final = 8
"""Domains that a message names one by one."""


def _of_domain(domain: Domain) -> str:
    name = f"{domain.name}: " if domain.name else ""
    spread = f", at most {domain.largest} on one node" if domain.free > domain.largest else ""
    return f"{name}{domain.free} of {domain.offered} free{spread}"


def _domain(name: str, nodes: Sequence[Node], resource: str) -> Domain:
    free = [max(0, node.offered[resource] - node.taken.get(resource, 0)) for node in nodes]
    return Domain(name, len(nodes), sum(node.offered[resource] for node in nodes), sum(free), max(free))


def _beside(nodes: Sequence[Node], resource: str) -> tuple[tuple[str, int], ...]:
    total: dict[str, int] = {}
    for node in nodes:
        for name, count in node.offered.items():
            if name != resource and count:
                total[name] = total.get(name, 0) + count
    return tuple(sorted(total.items()))


def _sharing(nodes: Sequence[Node], resource: str) -> Sharing | None:
    """How the GPUs are shared where they are shared most; None where each belongs to one pod."""
    found = None
    for node in nodes:
        replicas = node.labels.get(f"{resource}.replicas", "")
        strategy = node.labels.get(f"{resource}.sharing-strategy", "time-slicing")
        if replicas.isdecimal() and 1 < int(replicas) <= MOST_REPLICAS and strategy in _STRATEGIES:
            shared = Sharing(strategy=_STRATEGIES[strategy], replicas=int(replicas))
            found = shared if found is None or shared.replicas > found.replicas else found
    return found


MOST_REPLICAS: Final = 128


def _tolerated(node: Node, tolerations: Sequence[Mapping[str, Any]]) -> bool:
    return all(any(_tolerates(one, taint) for one in tolerations) for taint in node.taints)


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, str]) -> bool:
    """As Kubernetes matches them: an empty key with Exists stands for every taint, an empty effect for each effect."""
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint.get("key"))
    return toleration.get("key") == taint.get("key") and (toleration.get("value") or "") == taint.get("value", "")


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
