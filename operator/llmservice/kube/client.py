"""What the operator asks of a Kubernetes API server: the one protocol behind which every client stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from llmservice.kube.resources import Manifest, Resource
from llmservice.workload.names import MANAGED_BY

FIELD_MANAGER: Final = MANAGED_BY
STATUS_FIELD_MANAGER: Final = f"{FIELD_MANAGER}-status"


class KubeClient(Protocol):
    """A Kubernetes API server. Every method raises `KubeError` (see `kube/errors`), never a library's own error.

    Manifests that come back are the caller's to change. Retries of 429, 5xx and lost connections happen inside;
    what is raised is what remained after that.
    """

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Manifest | None:
        """The object, or None when it is not there. Raises NotServed when the resource itself is unknown."""
        ...

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        field_selector: str = "",
    ) -> list[Manifest]:
        """Every object with these labels, of one namespace or of all, sorted by namespace and name."""
        ...

    async def apply(self, manifest: Manifest, *, field_manager: str = FIELD_MANAGER, force: bool = True) -> Manifest:
        """Server-side apply of exactly the fields given; creates the object when it is missing.

        A field that this manager applied before and leaves out now is removed unless another manager owns it.
        Raises Conflict without `force` when another manager owns a field with another value.
        A `uid` in the metadata makes sure that only that object is changed (Conflict otherwise).
        """
        ...

    async def apply_status(self, manifest: Manifest, *, field_manager: str = STATUS_FIELD_MANAGER) -> Manifest:
        """Server-side apply of `status` alone. Raises NotFound when the object is gone."""
        ...

    async def create(self, manifest: Manifest) -> Manifest:
        """A new object. Raises AlreadyExists."""
        ...

    async def replace(self, manifest: Manifest) -> Manifest:
        """The whole object as given, when its `resourceVersion` is still the stored one; Conflict otherwise."""
        ...

    async def delete(self, resource: Resource, namespace: str | None, name: str, *, uid: str | None = None) -> bool:
        """Delete, children in the background. False when it (or, with `uid`, that very object) is not there."""
        ...

    async def logs(self, namespace: str, pod: str, container: str, *, tail_lines: int, previous: bool = False) -> str:
        """The end of a container's log; `previous` for the run before the last restart."""
        ...

    async def server_version(self) -> tuple[int, int]:
        """Major and minor version of the API server."""
        ...

    async def served(self, resource: Resource) -> bool:
        """Whether the API server knows the resource."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
