"""The fake API server's store: objects with their owners, versions, generations, finalizers and garbage."""

from __future__ import annotations

import copy
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from llmservice.kube import resources
from llmservice.kube.clock import timestamp
from llmservice.kube.errors import KubeError, from_status
from llmservice.kube.fields import fields_v1
from llmservice.kube.ownership import Owners
from llmservice.kube.resources import Manifest, Resource

Key = tuple[Resource, str | None, str]

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_WITHOUT_GENERATION: Final = frozenset(
    {
        resources.CONFIG_MAP,
        resources.EVENT,
        resources.LEASE,
        resources.NAMESPACE,
        resources.PERSISTENT_VOLUME_CLAIM,
        resources.SECRET,
        resources.SERVICE,
        resources.SERVICE_ACCOUNT,
    }
)


@dataclass
class Stored:
    """An object and who owns its fields."""

    manifest: Manifest
    owners: Owners = field(default_factory=dict)


class Store:
    """Objects by resource, namespace and name; `listener` hears (`ADDED`, `MODIFIED`, `DELETED`, manifest)."""

    def __init__(self, now: Callable[[], datetime], listener: Callable[[str, Manifest], None]) -> None:
        self.objects: dict[Key, Stored] = {}
        self.now = now
        self._listener = listener
        self._version = 0

    def find(self, key: Key) -> Stored | None:
        """The stored object, not a copy."""
        return self.objects.get(key)

    def matching(self, resource: Resource, namespace: str | None) -> Iterator[Stored]:
        """Objects of a resource in one namespace or in all, sorted by namespace and name."""
        keys = [key for key in self.objects if key[0] == resource and namespace in (None, key[1])]
        return (self.objects[key] for key in sorted(keys, key=lambda key: (key[1] or "", key[2])))

    def insert(self, key: Key, manifest: Manifest, owners: Owners) -> Stored:
        """A new object: uid, creation time, generation. Raises what the API server would."""
        resource, namespace, name = key
        self._check_room(resource, namespace, name)
        metadata = manifest.setdefault("metadata", {})
        metadata.update(
            name=name,
            uid=str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self._version + 1}")),
            creationTimestamp=timestamp(self.now()),
            resourceVersion=self._next_version(),
        )
        if namespace is not None:
            metadata["namespace"] = namespace
        if resource not in _WITHOUT_GENERATION:
            metadata["generation"] = 1
        stored = Stored(manifest, owners)
        self.objects[key] = stored
        self._note("ADDED", stored)
        return stored

    def write(self, key: Key, manifest: Manifest, owners: Owners) -> Stored:
        """A new form of a stored object. The same form again changes nothing, not even the resource version."""
        stored = self.objects[key]
        if _without_managers(manifest) == _without_managers(stored.manifest):
            stored.owners = owners
            _record_managers(stored)
            return stored
        before = stored.manifest
        metadata = manifest["metadata"]
        metadata["resourceVersion"] = self._next_version()
        if key[0] not in _WITHOUT_GENERATION and _desired(manifest) != _desired(before):
            metadata["generation"] = before["metadata"].get("generation", 0) + 1
        stored = self.objects[key] = Stored(manifest, owners)
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            self._drop(key)
        else:
            self._note("MODIFIED", stored)
        return stored

    def remove(self, key: Key) -> None:
        """Delete: at once, or marked when finalizers hold the object or a namespace has content."""
        stored = self.objects[key]
        metadata = stored.manifest["metadata"]
        held = bool(metadata.get("finalizers"))
        if key[0] == resources.NAMESPACE:
            stored.manifest.setdefault("status", {})["phase"] = "Terminating"
            held = held or any(other[1] == key[2] for other in self.objects)
        if not held:
            self._drop(key)
        elif "deletionTimestamp" not in metadata:
            metadata["deletionTimestamp"] = timestamp(self.now())
            metadata["resourceVersion"] = self._next_version()
            self._note("MODIFIED", stored)

    def collect_garbage(self) -> list[Key]:
        """Delete objects whose owners are all gone and what is in dying namespaces, until nothing is left to do."""
        collected: list[Key] = []
        while True:
            doomed = [key for key in self.objects if self._is_garbage(key)]
            for key in doomed:
                self.remove(key)
            gone = [key for key in doomed if key not in self.objects]
            if not gone:
                return collected
            collected += gone

    def _is_garbage(self, key: Key) -> bool:
        metadata = self.objects[key].manifest["metadata"]
        if key[0] == resources.NAMESPACE:
            return bool(metadata.get("deletionTimestamp"))
        space = self.objects.get((resources.NAMESPACE, None, key[1] or ""))
        if space and space.manifest["metadata"].get("deletionTimestamp"):
            return True
        owners = metadata.get("ownerReferences") or []
        alive = {stored.manifest["metadata"]["uid"] for stored in self.objects.values()}
        return bool(owners) and not any(owner["uid"] in alive for owner in owners)

    def _drop(self, key: Key) -> None:
        stored = self.objects.pop(key)
        stored.manifest["metadata"]["resourceVersion"] = self._next_version()
        self._note("DELETED", stored)

    def _check_room(self, resource: Resource, namespace: str | None, name: str) -> None:
        if not _NAME.fullmatch(name) or len(name) > 253:
            text = f'{resource.kind} "{name}" is invalid: metadata.name: Invalid value: "{name}"'
            causes = [{"reason": "FieldValueInvalid", "field": "metadata.name", "message": "a lowercase RFC 1123 name"}]
            raise refusal(422, "Invalid", text, resource, name, causes=causes)
        if namespace is None:
            return
        space = self.objects.get((resources.NAMESPACE, None, namespace))
        if space is None:
            raise refusal(404, "NotFound", f'namespaces "{namespace}" not found', resources.NAMESPACE, namespace)
        if space.manifest["metadata"].get("deletionTimestamp"):
            text = (
                f'{resource.plural} "{name}" is forbidden: unable to create new content in namespace {namespace} '
                "because it is being terminated"
            )
            causes = [{"reason": "NamespaceTerminating", "field": "metadata.namespace", "message": text}]
            raise refusal(403, "Forbidden", text, resource, name, causes=causes)

    def _next_version(self) -> str:
        self._version += 1
        return str(self._version)

    def _note(self, kind: str, stored: Stored) -> None:
        _record_managers(stored)
        self._listener(kind, copy.deepcopy(stored.manifest))


def refusal(
    status: int,
    reason: str,
    message: str,
    resource: Resource,
    name: str,
    *,
    causes: list[dict[str, Any]] | None = None,
) -> KubeError:
    """An error with the `Status` body that the API server would send."""
    details: dict[str, Any] = {"name": name, "kind": resource.plural}
    if resource.group:
        details["group"] = resource.group
    if causes:
        details["causes"] = causes
    return from_status(status, {"reason": reason, "message": message, "details": details})


def _record_managers(stored: Stored) -> None:
    entries = []
    for who, owned in sorted(stored.owners.items()):
        entry: dict[str, Any] = {
            "manager": who.name,
            "operation": who.operation,
            "apiVersion": stored.manifest["apiVersion"],
            "fieldsType": "FieldsV1",
            "fieldsV1": fields_v1(owned),
        }
        if who.subresource:
            entry["subresource"] = who.subresource
        entries.append(entry)
    stored.manifest["metadata"]["managedFields"] = entries


def _without_managers(manifest: Manifest) -> Manifest:
    metadata = {k: v for k, v in manifest["metadata"].items() if k not in ("managedFields", "resourceVersion")}
    return {**manifest, "metadata": metadata}


def _desired(manifest: Manifest) -> Manifest:
    return {name: value for name, value in manifest.items() if name not in ("metadata", "status")}
