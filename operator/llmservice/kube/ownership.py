"""Who owns which field: server-side apply and updates as pure functions over an object and its owners.

A model of the API server's own rules (kubernetes.io/docs/reference/using-api/server-side-apply) that is faithful for
what an operator does: fields are owned by managers, a field given up by its only owner vanishes, a field of another
manager is touched only by force, equal values are shared.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

from llmservice.kube.errors import Conflict
from llmservice.kube.fields import Path, dotted, is_item, merge, paths_of, remove, value_at
from llmservice.kube.resources import Manifest


class Manager(NamedTuple):
    """One entry of `managedFields`: who, how (`Apply` or `Update`), through which subresource."""

    name: str
    operation: str
    subresource: str = ""


Owners = dict[Manager, frozenset[Path]]

_IDENTITY = frozenset({"apiVersion", "kind"})
_SYSTEM_METADATA = frozenset(
    {
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "name",
        "namespace",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)


def content(manifest: Manifest, subresource: str = "") -> Manifest:
    """What a request may say: without identity and system fields; `status` only and alone through its subresource."""
    if subresource == "status":
        return {"status": manifest["status"]} if "status" in manifest else {}
    said = {name: value for name, value in manifest.items() if name not in _IDENTITY | {"metadata", "status"}}
    metadata = {k: v for k, v in manifest.get("metadata", {}).items() if k not in _SYSTEM_METADATA}
    return {"metadata": metadata, **said} if metadata else said


def applied(
    live: Manifest, owners: Owners, manager: Manager, said: Manifest, *, force: bool
) -> tuple[Manifest, Owners]:
    """The object and its owners after `manager` applied `said`. Raises Conflict as the API server does."""
    paths = frozenset(paths_of(said))
    taken = _taken(live, owners, manager, said, paths)
    if taken and not force:
        raise _conflict(taken)
    lost = {path for _, path in taken}
    after: Owners = {who: owned - lost for who, owned in owners.items() if who != manager}
    after[manager] = paths
    merged: Manifest = merge(copy.deepcopy(live), copy.deepcopy(said))
    # An item before its fields: without its key field it could no longer be found.
    for path in sorted(owners.get(manager, frozenset()) - paths, key=len):
        if not _still_owned(path, after):
            remove(merged, path)
    return merged, {who: owned for who, owned in after.items() if owned}


def updated(before: Manifest, after: Manifest, owners: Owners, manager: Manager) -> Owners:
    """The owners after `manager` wrote `after` over `before` without apply: it owns what it changed."""
    old, new = set(paths_of(before)), set(paths_of(after))
    changed = {path for path in new if path not in old or value_at(before, path) != value_at(after, path)}
    fields = {path for path in changed if path not in old or not is_item(path)}
    gone = old - new
    result: Owners = {who: owned - fields - gone for who, owned in owners.items()}
    result[manager] = (result.get(manager, frozenset()) | fields) - gone
    return {who: owned for who, owned in result.items() if owned}


def _taken(
    live: Manifest, owners: Owners, manager: Manager, said: Manifest, paths: frozenset[Path]
) -> list[tuple[Manager, Path]]:
    return [
        (who, path)
        for who, owned in owners.items()
        if who != manager
        for path in sorted(owned & paths)
        if not is_item(path) and _differ(live, said, path)
    ]


def _differ(live: Manifest, said: Manifest, path: Path) -> bool:
    try:
        return bool(value_at(live, path) != value_at(said, path))
    except KeyError:
        return False


def _still_owned(path: Path, owners: Owners) -> bool:
    """Whether anyone says something at the path, below it, or about a whole that contains it."""
    return any(
        owned[: len(path)] == path or (path[: len(owned)] == owned and not is_item(owned)) for owned in _every(owners)
    )


def _every(owners: Owners) -> Iterator[Path]:
    for owned in owners.values():
        yield from owned


def _conflict(taken: list[tuple[Manager, Path]]) -> Conflict:
    causes: list[dict[str, Any]] = [
        {"reason": "FieldManagerConflict", "message": f'conflict with "{who.name}"', "field": dotted(path)}
        for who, path in taken
    ]
    count = "1 conflict" if len(causes) == 1 else f"{len(causes)} conflicts"
    listed = ", ".join(f"{cause['message']}: {cause['field']}" for cause in causes)
    message = f"Apply failed with {count}: {listed}"
    return Conflict(message, status=409, reason="Conflict", details={"causes": causes})
