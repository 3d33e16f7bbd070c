"""An edit of the file while it runs → what changes live, what would need a restart, and what runs afterwards. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from llmservice.api.service import LLMService
from llmservice.changes.change_class import Change, ChangeClass
from llmservice.changes.classify import classify
from llmservice.local.errors import LocalError
from llmservice.local.intent import Host, Intent, intend_service

CLUSTER_ONLY: Final = (
    "spec.template",
    "spec.service.type",
    "spec.service.annotations",
    "spec.replicas",
    "spec.scaling",
    "spec.rollout",
    "pool",
    "fleet",
)
"""Fields that mean nothing without Kubernetes."""

SEEDED_BY: Final = {
    "knobs.maxQueueDelay": "spec.batching.maxQueueDelay",
    "knobs.slots": "spec.batching.maxSequences",
    "knobs.replicas": "spec.replicas",
}
"""Knobs that only repeat the field which sets them."""

BOUNDS: Final = {"spec.tuning.bounds.engineInstances": "knobs.engineInstances"}
"""Bounds that are no news where the knob they hold has moved."""

Path = tuple[str, ...]


@dataclass(frozen=True)
class Edit:
    """One edit: what comes live, what needs a restart, what means nothing here; `after` is what runs with the first."""

    live: tuple[Change, ...]
    restart: tuple[Change, ...]
    without_effect: tuple[Change, ...]
    after: Intent


def plan_edit(running: Intent, wanted: Intent, host: Host) -> Edit:
    """The edit from `running` to `wanted`. Raises LocalError where it cannot be brought about as a whole or in part."""
    if running.service.metadata.name != wanted.service.metadata.name:
        raise LocalError("metadata.name: the models carry it, so another name needs a restart")
    changes = _told(classify(running.inputs, wanted.inputs))
    nothing = tuple(c for c in changes if _cluster_only(c.field) or c.change_class is ChangeClass.NONE)
    restart = tuple(c for c in changes if c.change_class.needs_revision and c not in nothing)
    live = tuple(c for c in changes if c not in nothing and c not in restart)
    after = wanted if not restart else _keep(running, wanted, {change.field for change in restart}, host)
    return Edit(live, restart, nothing, after)


def _told(changes: tuple[Change, ...]) -> tuple[Change, ...]:
    fields = {change.field for change in changes}
    moved = {bound for bound, knob in BOUNDS.items() if knob in fields}
    return tuple(
        change
        for change in changes
        if SEEDED_BY.get(change.field) not in fields and change.field.rpartition(".")[0] not in moved
    )


def _cluster_only(field: str) -> bool:
    return any(field == path or field.startswith(f"{path}.") for path in CLUSTER_ONLY)


def _keep(running: Intent, wanted: Intent, fields: set[str], host: Host) -> Intent:
    """What `wanted` asks for, with `fields` as they run."""
    old, new = dict(_flat(running.service)), dict(_flat(wanted.service))
    for path in old.keys() | new.keys():
        if ".".join(path) in fields:
            new.pop(path, None)
            if path in old:
                new[path] = old[path]
    spec: dict[str, Any] = {}
    for path, value in new.items():
        part = spec
        for step in path[:-1]:
            part = part.setdefault(step, {})
        part[path[-1]] = value
    try:
        service = LLMService.parse({"metadata": {"name": wanted.service.metadata.name}, **spec})
    except ValueError as error:
        raise LocalError("this edit can only be made as a whole, by a restart") from error
    return intend_service(service, host)


def _flat(service: LLMService) -> Iterator[tuple[Path, Any]]:
    yield from _leaves(("spec",), service.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True))


def _leaves(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _leaves((*path, key), inner)
    elif value is not None and value != {}:
        yield path, value
