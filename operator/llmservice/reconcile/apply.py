"""Apply: bring about what was decided, only while leading. Nothing half done is undone: the next pass goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from llmservice.api.reasons import Reason
from llmservice.diagnose.finding import Finding
from llmservice.kube import resources
from llmservice.kube.client import FIELD_MANAGER, KubeClient
from llmservice.kube.differs import stamp
from llmservice.kube.errors import Forbidden, Invalid, KubeError, NamespaceTerminating, NotServed
from llmservice.kube.resources import Manifest, Resource
from llmservice.reconcile.decide import Decision, Write
from llmservice.reconcile.world import World

SCALE_FIELD_MANAGER: Final = f"{FIELD_MANAGER}-scale"
"""Owns the replica count of revisions that are not rendered any more, and nothing else."""

log = logging.getLogger(__name__)


class NotLeadingError(RuntimeError):
    """Leadership was lost: another process may write now, so this one no longer does."""


@dataclass
class Applier:
    """Writes decisions. `may_write` is asked before each write; `written` keeps Secrets as they were applied last."""

    client: KubeClient
    may_write: Callable[[], bool]
    written: dict[str, dict[str, Manifest]] = field(default_factory=dict)

    async def apply(self, world: World, decision: Decision) -> Finding | None:
        """Carries the decision out, in order; what a person has to resolve comes back as a finding.

        Raises NotLeadingError, and KubeError for what may pass by itself (a conflict, an API server that is away).
        """
        if decision.seed_replicas is not None:
            try:
                await self._seed(world, decision.seed_replicas)
            except Forbidden as error:
                return refused(error, resources.LLM_SERVICE, world.key[1])
        for write in decision.writes:
            resource, name = Resource.of(write.manifest), write.manifest["metadata"]["name"]
            try:
                await self._write(world, write)
            except (Forbidden, Invalid, NotServed) as error:
                return refused(error, resource, name)
            self._log("applied", resource, name, write.why)
        for removal in decision.removals:
            self.fence()
            try:
                await self.client.delete(removal.resource, world.key[0], removal.name, uid=removal.uid)
            except Forbidden as error:
                return refused(error, removal.resource, removal.name)
            self._log("deleted", removal.resource, removal.name, removal.why)
        return None

    async def _write(self, world: World, write: Write) -> None:
        self.fence()
        if write.scale:
            await self.client.apply(write.manifest, field_manager=SCALE_FIELD_MANAGER)
            return
        stamped = stamp(write.manifest)
        live = await self.client.apply(stamped)
        if Resource.of(write.manifest) == resources.SECRET:
            self.written.setdefault(world.uid, {})[live["metadata"]["name"]] = stamped

    async def _seed(self, world: World, replicas: int) -> None:
        """Writes `spec.replicas` once, so that an autoscaler finds a count; from then on it is the autoscaler's."""
        self.fence()
        namespace, name = world.key
        seeded = {
            "apiVersion": resources.LLM_SERVICE.api_version,
            "kind": resources.LLM_SERVICE.kind,
            "metadata": {"name": name, "namespace": namespace, "uid": world.uid},
            "spec": {"replicas": replicas},
        }
        await self.client.apply(seeded, field_manager=SCALE_FIELD_MANAGER)
        self._log("seeded", resources.LLM_SERVICE, name, f"{world.autoscaler} scales it, from {replicas} replicas")

    def forget(self, uid: str) -> None:
        """Drops what is remembered of a service that is gone."""
        self.written.pop(uid, None)

    def fence(self) -> None:
        """Raises NotLeadingError unless this process may write right now."""
        if not self.may_write():
            raise NotLeadingError("leadership was lost before a write")

    def _log(self, verb: str, resource: Resource, name: str, why: str) -> None:
        log.info("%s %s %s: %s", verb, resource.kind, name, why)


def refused(error: KubeError, resource: Resource, name: str) -> Finding:
    """What the API server refused for good, as a finding that says whose move it is."""
    what = f"{resource.kind} {name!r}"
    if isinstance(error, NamespaceTerminating):
        return Finding(Reason.NAMESPACE_TERMINATING, "the namespace is being deleted, and the service goes with it")
    if isinstance(error, Forbidden) and "exceeded quota" in error.message:
        text = f"the namespace's quota allows no {what}: raise it, or ask for less. Kubernetes says: {error.message}"
        return Finding(Reason.QUOTA_EXCEEDED, text)
    if isinstance(error, Forbidden):
        text = f"the operator may not write {what}: check its role and the admission rules. Kubernetes says: "
        return Finding(Reason.FORBIDDEN, text + error.message)
    if isinstance(error, Invalid) and resource == resources.SECRET and "immutable" in error.message:
        text = f"{what} is not the service's own, and left alone. Delete or rename it, or give the service another name"
        return Finding(Reason.NAME_CONFLICT, text)
    text = f"Kubernetes does not take {what} as the spec has it: {error.message}. Correct the field that it names"
    return Finding(Reason.INVALID_SPEC, text)
