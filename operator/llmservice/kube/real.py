"""A `KubeClient` of a real API server, over the HTTP client of `kubernetes.aio`.

Requests are made by path, without discovery and without typed models: manifests stay the JSON they are, and what is
applied is exactly what was given.
"""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from llmservice.kube import resources
from llmservice.kube.client import FIELD_MANAGER, STATUS_FIELD_MANAGER
from llmservice.kube.connection import open_connection
from llmservice.kube.errors import Conflict, Invalid, KubeError, NotFound, NotServed
from llmservice.kube.requests import Request, Requests
from llmservice.kube.resources import Manifest, Manifests, Resource
from llmservice.kube.selectors import label_selector
from llmservice.kube.undeclared import drop_field, undeclared_field

_log = logging.getLogger(__name__)

_PAGE: Final = 500
_LONGEST_LOG: Final = 1 << 20
_GONE: Final = 410
_APPLY: Final = "application/apply-patch+yaml"


async def connect(kubeconfig: Path | None = None, context: str | None = None, **options: Any) -> RealKube:
    """A client of the cluster in the kubeconfig, or of the one this pod runs in. `options` are those of `Requests`."""
    return RealKube(Requests(await open_connection(kubeconfig, context), **options))


class RealKube:
    """A `KubeClient` whose errors, retries and limits are those of its `Requests`."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Manifest | None:
        """See `KubeClient.get`."""
        try:
            return await self._json(Request("get", "GET", resource.path(namespace, name), resource))
        except NotServed:
            raise
        except NotFound:
            return None

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        field_selector: str = "",
    ) -> list[Manifest]:
        """See `KubeClient.list`. Read in pages; a list that expires between two pages is read again in one."""
        query = {"labelSelector": label_selector(labels or {}), "fieldSelector": field_selector}
        path = resource.path(namespace)
        try:
            items = await self._pages(resource, path, {**query, "limit": str(_PAGE)})
        except KubeError as error:
            if error.status != _GONE:
                raise
            items = await self._pages(resource, path, query)
        # Items of a list come without the two fields that say what they are.
        return [{"apiVersion": resource.api_version, "kind": resource.kind, **item} for item in items]

    async def apply(self, manifest: Manifest, *, field_manager: str = FIELD_MANAGER, force: bool = True) -> Manifest:
        """See `KubeClient.apply`. A field that the API server does not know is an error: Invalid."""
        query = {"fieldManager": field_manager, "force": str(force).lower(), "fieldValidation": "Strict"}
        resource, path = _object_path(manifest)
        return await self._apply(Request("apply", "PATCH", path, resource, query, manifest, _APPLY))

    async def apply_status(self, manifest: Manifest, *, field_manager: str = STATUS_FIELD_MANAGER) -> Manifest:
        """See `KubeClient.apply_status`. Fields that an older CRD does not know are dropped, the rest is kept."""
        query = {"fieldManager": field_manager, "force": "true"}
        resource, path = _object_path(manifest, "status")
        metadata = {k: v for k, v in manifest["metadata"].items() if k in ("name", "namespace", "uid")}
        said = {k: copy.deepcopy(v) for k, v in manifest.items() if k in ("apiVersion", "kind", "status")}
        body: Manifest = {**said, "metadata": metadata}
        while True:
            try:
                return await self._apply(Request("apply", "PATCH", path, resource, query, body, _APPLY))
            except Invalid as error:
                unknown = undeclared_field(error.message)
                if unknown is None or not drop_field(body, unknown):
                    raise
                _log.warning("the CRD does not know %s: install the CRD of this operator", unknown)

    async def create(self, manifest: Manifest) -> Manifest:
        """See `KubeClient.create`."""
        resource = Resource.of(manifest)
        query = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}
        path = resource.path(resource.key(manifest)[0])
        return await self._json(Request("create", "POST", path, resource, query, manifest, repeatable=False))

    async def replace(self, manifest: Manifest) -> Manifest:
        """See `KubeClient.replace`."""
        if not manifest["metadata"].get("resourceVersion"):
            raise Invalid("metadata.resourceVersion: must be specified for an update", status=422, reason="Invalid")
        resource, path = _object_path(manifest)
        query = {"fieldManager": FIELD_MANAGER}
        return await self._json(Request("replace", "PUT", path, resource, query, manifest))

    async def delete(self, resource: Resource, namespace: str | None, name: str, *, uid: str | None = None) -> bool:
        """See `KubeClient.delete`."""
        options: Manifest = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        try:
            await self._requests.send(
                Request("delete", "DELETE", resource.path(namespace, name), resource, {}, options)
            )
        except NotServed:
            raise
        except NotFound:
            return False
        except Conflict:
            live = await self.get(resource, namespace, name)
            if live is not None and uid in (None, live["metadata"]["uid"]):
                raise
            return False
        return True

    async def logs(self, namespace: str, pod: str, container: str, *, tail_lines: int, previous: bool = False) -> str:
        """See `KubeClient.logs`. At most one MiB."""
        query = {
            "container": container,
            "tailLines": str(tail_lines),
            "limitBytes": str(_LONGEST_LOG),
            "previous": str(previous).lower(),
        }
        path = resources.POD.path(namespace, pod, "log")
        data = await self._requests.send(Request("logs", "GET", path, resources.POD, query, repeatable=False))
        return data.decode(errors="replace")

    async def server_version(self) -> tuple[int, int]:
        """See `KubeClient.server_version`."""
        found = await self._json(Request("version", "GET", "/version"))
        return _number(found["major"]), _number(found["minor"])

    async def served(self, resource: Resource) -> bool:
        """See `KubeClient.served`."""
        try:
            found = await self._json(Request("version", "GET", resource.version_path, resource))
        except NotFound:
            return False
        return any(each["name"] == resource.plural for each in found["resources"])

    async def close(self) -> None:
        """See `KubeClient.close`."""
        await self._requests.close()

    async def _apply(self, request: Request) -> Manifest:
        try:
            return await self._json(request)
        except Invalid as error:
            if any(cause.get("field") == "metadata.uid" for cause in error.details.get("causes") or ()):
                # Another object has the name now. The API server calls that an attempt to change the uid.
                raise Conflict(error.message, status=409, reason="Conflict", details=error.details) from error
            raise

    async def _json(self, request: Request) -> Manifest:
        answer: Manifest = json.loads(await self._requests.send(request))
        return answer

    async def _pages(self, resource: Resource, path: str, query: Mapping[str, str]) -> Manifests:
        items: Manifests = []
        following = ""
        while True:
            page = await self._json(Request("list", "GET", path, resource, {**query, "continue": following}))
            items += page["items"]
            following = page["metadata"].get("continue") or ""
            if not following:
                return items


def _object_path(manifest: Manifest, subresource: str = "") -> tuple[Resource, str]:
    resource = Resource.of(manifest)
    namespace, name = resource.key(manifest)
    return resource, resource.path(namespace, name, subresource)


def _number(text: str) -> int:
    """A version's number; some distributions write `30+`."""
    return int("".join(ch for ch in text if ch.isdigit()))
