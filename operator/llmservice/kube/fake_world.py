"""The world behind the fake API server, and what tests do to it as other actors: users, controllers, faults."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from llmservice.kube import resources
from llmservice.kube.faults import Call, Fault, Journal
from llmservice.kube.ownership import Manager, Owners, applied, content, updated
from llmservice.kube.resources import Manifest, Resource
from llmservice.kube.store import Key, Store


class FakeWorld:
    """Objects, a journal of calls, planned faults. What is done here is not in the journal: others do it."""

    def __init__(
        self,
        *,
        namespaces: Iterable[str] = ("default",),
        version: tuple[int, int] = (1, 36),
        automatic_garbage: bool = True,
        now: Callable[[], datetime] = lambda: datetime(2026, 1, 1, tzinfo=UTC),
    ) -> None:
        self.journal = Journal()
        self.listeners: list[Callable[[str, Manifest], None]] = []
        self.admission: list[Callable[[Manifest], None]] = []
        """Checks that see every created or changed object and may raise a KubeError (a quota, a CEL rule)."""
        self.before: Callable[[Call], Awaitable[None]] | None = None
        """Runs before every call: latency, or another actor's move in between."""
        self.unserved: set[Resource] = set()
        self.pod_logs: dict[tuple[str, str, str, bool], str] = {}
        """Logs by namespace, pod, container and whether of the previous run."""
        self.closed = False
        self._version = version
        self._automatic_garbage = automatic_garbage
        self._store = Store(now, self._notify)
        self._stale: Store | None = None
        for namespace in namespaces:
            self.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})

    def put(self, manifest: Manifest, *, manager: str = "kubectl") -> Manifest:
        """Play another actor: store the object as given, status included, over what was there; not in the journal."""
        manifest = copy.deepcopy(manifest)
        key = self._key(manifest)
        stored = self._store.find(key)
        if stored is None:
            return self._created(key, manifest, Manager(manager, "Update"), keep_status=True)
        kept = {**stored.manifest["metadata"], "labels": None, "annotations": None, "ownerReferences": None}
        metadata = {name: value for name, value in {**kept, **manifest["metadata"]}.items() if value is not None}
        return self._update(key, {**manifest, "metadata": metadata}, Manager(manager, "Update"))

    def change(self, resource: Resource, namespace: str | None, name: str, edit: Callable[[Manifest], Any]) -> Manifest:
        """Play another actor: edit a copy of the stored object in place and store it."""
        manifest = self.peek(resource, namespace, name)
        edit(manifest)
        return self._update((resource, namespace, name), manifest, Manager("kubectl", "Update"))

    def set_status(self, resource: Resource, namespace: str | None, name: str, status: Manifest) -> Manifest:
        """Play a controller: set top-level fields of `status`, leave its other fields."""
        manifest = self.peek(resource, namespace, name)
        manifest["status"] = {**manifest.get("status", {}), **copy.deepcopy(status)}
        return self._update((resource, namespace, name), manifest, Manager("controller", "Update", "status"))

    def peek(self, resource: Resource, namespace: str | None, name: str) -> Manifest:
        """A stored object, past the journal. Raises KeyError when it is not there."""
        return copy.deepcopy(self._store.objects[(resource, namespace, name)].manifest)

    def names(self, resource: Resource, namespace: str | None = None) -> list[str]:
        """The names stored for a resource, past the journal."""
        return [stored.manifest["metadata"]["name"] for stored in self._store.matching(resource, namespace)]

    def terminate_namespace(self, name: str) -> None:
        """Start the deletion of a namespace without finishing it: nothing new may be created there."""
        self.change(
            resources.NAMESPACE,
            None,
            name,
            lambda it: it["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["test/hold"]),
        )

    def fail(self, error: Exception, **where: Any) -> Fault:
        """Plan an error; see `Fault` for `verb`, `resource`, `name`, `nth`, `times`, `after_write`."""
        fault = Fault(error, **where)
        self.journal.faults.append(fault)
        return fault

    def collect_garbage(self) -> list[str]:
        """Do what the garbage collector and the namespace controller do; `kind/name` of what is gone."""
        return [f"{key[0].kind}/{key[2]}" for key in self._store.collect_garbage()]

    @contextmanager
    def stale_reads(self) -> Iterator[None]:
        """Within: `get` and `list` show the world as it is now, whatever is written meanwhile."""
        self._stale = copy.copy(self._store)
        self._stale.objects = copy.deepcopy(self._store.objects)
        try:
            yield
        finally:
            self._stale = None

    def _created(self, key: Key, manifest: Manifest, manager: Manager, *, keep_status: bool = False) -> Manifest:
        if not keep_status:
            manifest.pop("status", None)
        for check in self.admission:
            check(manifest)
        said = content(manifest)
        owners = applied({}, {}, manager, said, force=True)[1]
        return copy.deepcopy(self._store.insert(key, manifest, owners).manifest)

    def _update(self, key: Key, after: Manifest, manager: Manager) -> Manifest:
        stored = self._store.objects[key]
        before_said = {**content(stored.manifest), **content(stored.manifest, "status")}
        after_said = {**content(after), **content(after, "status")}
        return self._stored(key, after, updated(before_said, after_said, stored.owners, manager))

    def _stored(self, key: Key, manifest: Manifest, owners: Owners) -> Manifest:
        for check in self.admission:
            check(manifest)
        return copy.deepcopy(self._store.write(key, manifest, owners).manifest)

    def _key(self, manifest: Manifest) -> Key:
        resource = Resource.of(manifest)
        namespace, name = resource.key(manifest)
        if resource.namespaced and not namespace:
            msg = f"{resource.kind} {name!r} lives in a namespace: name it in metadata.namespace"
            raise ValueError(msg)
        return resource, namespace, name

    def _notify(self, kind: str, manifest: Manifest) -> None:
        for listener in self.listeners:
            listener(kind, manifest)
