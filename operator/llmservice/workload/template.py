"""The allow-listed pod fields of pool and service, as one: the service's win."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from llmservice.api.template import PodTemplate, Resources

Entry = TypeVar("Entry")


def merge(pool: PodTemplate, service: PodTemplate) -> PodTemplate:
    """`service` laid over `pool`: maps and named lists entry by entry, tolerations together."""
    return PodTemplate(
        labels={**pool.labels, **service.labels},
        annotations={**pool.annotations, **service.annotations},
        resources=Resources(
            requests={**pool.resources.requests, **service.resources.requests},
            limits={**pool.resources.limits, **service.resources.limits},
        ),
        env=_by_key(pool.env, service.env, lambda variable: variable.name),
        tolerations=_distinct([*pool.tolerations, *service.tolerations]),
        image_pull_secrets=_by_key(pool.image_pull_secrets, service.image_pull_secrets, lambda secret: secret.name),
        volumes=_by_key(pool.volumes, service.volumes, lambda volume: str(volume.get("name"))),
        volume_mounts=_by_key(pool.volume_mounts, service.volume_mounts, lambda mount: mount.mount_path),
        priority_class_name=service.priority_class_name or pool.priority_class_name,
    )


def _by_key(under: Iterable[Entry], over: Iterable[Entry], key: Callable[[Entry], str]) -> list[Entry]:
    return list({**{key(entry): entry for entry in under}, **{key(entry): entry for entry in over}}.values())


def _distinct(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [entry for index, entry in enumerate(entries) if entry not in entries[:index]]
