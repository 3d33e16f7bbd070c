"""An in-memory API server for unit tests, kept honest by the contract cases that also run on a real one.

It knows what an operator relies on: resource versions, generations, server-side apply with field owners, the status
subresource, selectors, finalizers, owner references, dying namespaces. It does not fill in defaults, does not drop
what is empty, does not check schemas and runs no controllers; a test plays those parts with `put`, `change` and
`set_status`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TypeVar

from llmservice.kube import resources
from llmservice.kube.client import FIELD_MANAGER, STATUS_FIELD_MANAGER
from llmservice.kube.errors import Invalid, NotServed
from llmservice.kube.fake_world import FakeWorld
from llmservice.kube.faults import Call
from llmservice.kube.ownership import Manager, applied, content
from llmservice.kube.resources import Manifest, Resource
from llmservice.kube.selectors import matches_fields, matches_labels
from llmservice.kube.store import Key, Stored, refusal

T = TypeVar("T")


class FakeKube(FakeWorld):
    """A `KubeClient` over a world in memory."""

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Manifest | None:
        """See `KubeClient.get`."""
        key = (resource, namespace if resource.namespaced else None, name)

        def act() -> Manifest | None:
            stored = (self._stale or self._store).find(key)
            return copy.deepcopy(stored.manifest) if stored else None

        return await self._do(Call("get", *key), act)

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        field_selector: str = "",
    ) -> list[Manifest]:
        """See `KubeClient.list`."""

        def act() -> list[Manifest]:
            return [
                copy.deepcopy(stored.manifest)
                for stored in (self._stale or self._store).matching(resource, namespace)
                if matches_labels(stored.manifest, labels or {}) and matches_fields(stored.manifest, field_selector)
            ]

        return await self._do(Call("list", resource, namespace), act)

    async def apply(self, manifest: Manifest, *, field_manager: str = FIELD_MANAGER, force: bool = True) -> Manifest:
        """See `KubeClient.apply`."""
        key = self._key(manifest)
        return await self._do(
            Call("apply", *key), lambda: self._apply(key, manifest, Manager(field_manager, "Apply"), force=force)
        )

    async def apply_status(self, manifest: Manifest, *, field_manager: str = STATUS_FIELD_MANAGER) -> Manifest:
        """See `KubeClient.apply_status`."""
        key = self._key(manifest)
        manager = Manager(field_manager, "Apply", "status")
        return await self._do(
            Call("apply", *key, subresource="status"), lambda: self._apply(key, manifest, manager, force=True)
        )

    async def create(self, manifest: Manifest) -> Manifest:
        """See `KubeClient.create`."""
        key = self._key(manifest)
        return await self._do(Call("create", *key), lambda: self._create(key, manifest, FIELD_MANAGER))

    async def replace(self, manifest: Manifest) -> Manifest:
        """See `KubeClient.replace`."""
        key = self._key(manifest)
        return await self._do(Call("replace", *key), lambda: self._replace(key, manifest))

    async def delete(self, resource: Resource, namespace: str | None, name: str, *, uid: str | None = None) -> bool:
        """See `KubeClient.delete`."""
        key = (resource, namespace if resource.namespaced else None, name)
        return await self._do(Call("delete", *key), lambda: self._delete(key, uid))

    async def logs(self, namespace: str, pod: str, container: str, *, tail_lines: int, previous: bool = False) -> str:
        """See `KubeClient.logs`."""

        def act() -> str:
            if self._store.find((resources.POD, namespace, pod)) is None:
                raise refusal(404, "NotFound", f'pods "{pod}" not found', resources.POD, pod)
            text = self.pod_logs.get((namespace, pod, container, previous))
            if text is None:
                text = f'container "{container}" in pod "{pod}" has no log'
                raise refusal(400, "BadRequest", text, resources.POD, pod)
            return "".join(text.splitlines(keepends=True)[-tail_lines:])

        return await self._do(Call("logs", resources.POD, namespace, pod), act)

    async def server_version(self) -> tuple[int, int]:
        """See `KubeClient.server_version`."""
        return await self._do(Call("version"), lambda: self._version)

    async def served(self, resource: Resource) -> bool:
        """See `KubeClient.served`."""
        return await self._do(Call("version"), lambda: resource not in self.unserved)

    async def close(self) -> None:
        """See `KubeClient.close`."""
        self.closed = True

    async def _do(self, call: Call, act: Callable[[], T]) -> T:
        fault = self.journal.enter(call)
        if self.before is not None:
            await self.before(call)
        if fault is not None and not fault.after_write:
            raise fault.error
        if call.resource in self.unserved:
            raise NotServed("404 page not found", status=404)
        result = act()
        if fault is not None:
            raise fault.error
        return result

    def _apply(self, key: Key, manifest: Manifest, manager: Manager, *, force: bool) -> Manifest:
        said = content(manifest, manager.subresource)
        stored = self._store.find(key)
        wanted_uid = manifest["metadata"].get("uid")
        if stored is None:
            if manager.subresource:
                raise self._missing(key)
            if wanted_uid:
                text = f"uid mismatch: the provided object specified uid {wanted_uid}, and no existing object was found"
                raise refusal(409, "Conflict", text, key[0], key[2])
            return self._created(key, {**_identity(manifest), **copy.deepcopy(said)}, manager)
        self._check_preconditions(key, stored, manifest)
        merged, owners = applied(stored.manifest, stored.owners, manager, said, force=force)
        return self._stored(key, merged, owners)

    def _create(self, key: Key, manifest: Manifest, manager: str) -> Manifest:
        if self._store.find(key) is not None:
            raise refusal(409, "AlreadyExists", f'{key[0].plural} "{key[2]}" already exists', key[0], key[2])
        return self._created(key, copy.deepcopy(manifest), Manager(manager, "Update"))

    def _replace(self, key: Key, manifest: Manifest) -> Manifest:
        stored = self._store.find(key)
        if not manifest["metadata"].get("resourceVersion"):
            raise Invalid("metadata.resourceVersion: must be specified for an update", status=422, reason="Invalid")
        if stored is None:
            raise self._missing(key)
        self._check_preconditions(key, stored, manifest)
        system = {
            name: stored.manifest["metadata"][name]
            for name in ("uid", "creationTimestamp", "generation", "deletionTimestamp")
            if name in stored.manifest["metadata"]
        }
        after = copy.deepcopy(manifest)
        after["metadata"].update(system)
        if "status" in stored.manifest:
            after["status"] = copy.deepcopy(stored.manifest["status"])
        else:
            after.pop("status", None)
        return self._update(key, after, Manager(FIELD_MANAGER, "Update"))

    def _delete(self, key: Key, uid: str | None) -> bool:
        stored = self._store.find(key)
        if stored is None or uid not in (None, stored.manifest["metadata"]["uid"]):
            return False
        self._store.remove(key)
        if self._automatic_garbage:
            self._store.collect_garbage()
        return True

    def _check_preconditions(self, key: Key, stored: Stored, manifest: Manifest) -> None:
        for name in ("uid", "resourceVersion"):
            wanted, found = manifest["metadata"].get(name), stored.manifest["metadata"][name]
            if wanted not in (None, found):
                text = f'Operation cannot be fulfilled on {key[0].plural} "{key[2]}": {name} is {found}, not {wanted}'
                raise refusal(409, "Conflict", text, key[0], key[2])

    def _missing(self, key: Key) -> Exception:
        return refusal(404, "NotFound", f'{key[0].plural} "{key[2]}" not found', key[0], key[2])


def _identity(manifest: Manifest) -> Manifest:
    return {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"]}
