"""What one pass saw of the cluster, frozen: the only thing that decisions may look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from llmservice.capacity.quota import Claimant
from llmservice.diagnose.keepers import KeeperEvent
from llmservice.diagnose.pod import Pod
from llmservice.diagnose.pool import PoolSeen
from llmservice.kube import resources
from llmservice.kube.resources import Manifest, Resource
from llmservice.reconcile.work_queue import Key

ChildId = tuple[Resource, str]
"""A child by its resource and name; it lives in the service's namespace."""

KEEPERS: Final = frozenset({resources.DEPLOYMENT, resources.LEADER_WORKER_SET})
"""What keeps a revision's replicas."""


@dataclass(frozen=True)
class MissingClaim:
    """A PersistentVolumeClaim that is not there, and the field of the service that names it."""

    name: str
    field_path: str


@dataclass(frozen=True)
class World:
    """One look at a service and everything that belongs to it.

    `children` are the objects that carry the service's labels and are controlled by it. `strangers` are objects that
    have the name of a child and are not controlled by the service, with the words for whose they are. `written` are
    the Secrets as this process applied them last: the operator may write Secrets and not read them.
    """

    key: Key
    service: Manifest | None = None
    children: Mapping[ChildId, Manifest] = field(default_factory=dict)
    strangers: Mapping[ChildId, str] = field(default_factory=dict)
    pods: tuple[Pod, ...] = ()
    """One a replica: the one with Triton."""
    workers: tuple[Pod, ...] = ()
    """The other pods of replicas over several nodes; each names its leader."""
    events: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    logs: Mapping[str, str] = field(default_factory=dict)
    weights_logs: Mapping[str, str] = field(default_factory=dict)
    group_events: Mapping[str, tuple[KeeperEvent, ...]] = field(default_factory=dict)
    """Events about what makes pods of groups, by its name, oldest first: where these lack pods or do not serve."""
    missing_claim: MissingClaim | None = None
    autoscaler: str | None = None
    unserved: frozenset[Resource] = frozenset()
    written: Mapping[str, Manifest] = field(default_factory=dict)
    claimants: tuple[Claimant, ...] = ()
    """The services that share the namespace's quota of the pool, this one among them."""
    pool: PoolSeen | None = None
    """The nodes of the service's pool; None on a CPU, and where the operator may not read nodes."""

    @property
    def uid(self) -> str:
        """The service's uid; empty where it is gone."""
        return str(self.service["metadata"].get("uid", "")) if self.service else ""

    @property
    def generation(self) -> int:
        """The generation of the spec that was seen."""
        return int(self.service["metadata"].get("generation", 0)) if self.service else 0

    @property
    def status(self) -> Mapping[str, Any]:
        """The status as stored."""
        return (self.service or {}).get("status") or {}

    @property
    def keepers(self) -> dict[str, Manifest]:
        """What keeps the replicas of each revision, by name."""
        return {name: manifest for (kind, name), manifest in self.children.items() if kind in KEEPERS}

    @property
    def all_pods(self) -> tuple[Pod, ...]:
        """Every pod of every replica."""
        return (*self.pods, *self.workers)

    def of(self, resource: Resource) -> dict[str, Manifest]:
        """The children of one resource by name."""
        return {name: manifest for (kind, name), manifest in self.children.items() if kind == resource}


def is_controlled_by(manifest: Mapping[str, Any], uid: str) -> bool:
    """Whether the object's controller is the one with `uid`."""
    return any(
        owner.get("controller") and owner.get("uid") == uid
        for owner in manifest["metadata"].get("ownerReferences") or ()
    )


def owner_in_words(manifest: Mapping[str, Any]) -> str:
    """Whose an object is, for a message."""
    for owner in manifest["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return f"it belongs to {owner['kind']} {owner['name']!r}"
    return "nobody owns it"
