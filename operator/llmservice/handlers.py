"""The routing table: which event wakes the loop of which service. Nothing else happens here.

Events carry no decisions, they only say "look again"; so one that is lost, doubled or late does no harm. No handler
writes anything, no finalizer is set and no annotation kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import kopf

from llmservice.api.service import GROUP
from llmservice.kube import resources
from llmservice.kube.resources import Resource
from llmservice.process.login import Login
from llmservice.reconcile.work_queue import Key
from llmservice.workload.names import INSTANCE_LABEL, MANAGED_BY, MANAGED_BY_LABEL

Wake = Callable[[Key], None]

WATCHED_CHILDREN: Final = (
    resources.DEPLOYMENT,
    resources.POD,
    resources.CONFIG_MAP,
    resources.SERVICE,
    resources.SERVICE_ACCOUNT,
    resources.POD_DISRUPTION_BUDGET,
)
"""Secrets are not among them: the operator may write them and not read them."""

SERVER_TIMEOUT: Final = 270
"""Seconds after which the API server ends a watch and kopf begins a new one."""


def routes(wake: Wake, login: Login) -> kopf.OperatorRegistry:
    """The registry: the service wakes itself, a child wakes the service whose label it carries."""
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry)(login)

    async def service_changed(namespace: str | None, name: str | None, **_: Any) -> None:
        """The spec, the status or the existence of a service."""
        if namespace and name:
            wake((namespace, name))

    async def child_changed(namespace: str | None, labels: Mapping[str, str], **_: Any) -> None:
        """Anything about an object that belongs to a service."""
        owner = labels.get(INSTANCE_LABEL)
        if namespace and owner:
            wake((namespace, owner))

    async def autoscaler_changed(namespace: str | None, spec: Mapping[str, Any], **_: Any) -> None:
        """An autoscaler that came, went or changed its target: nothing about the service itself says so."""
        target = spec.get("scaleTargetRef") or {}
        if namespace and target.get("kind") == resources.LLM_SERVICE.kind and target.get("name"):
            wake((namespace, target["name"]))

    kopf.on.event(*_selector(resources.LLM_SERVICE), registry=registry)(service_changed)
    kopf.on.event(*_selector(resources.HORIZONTAL_POD_AUTOSCALER), registry=registry)(autoscaler_changed)
    for child in WATCHED_CHILDREN:
        kopf.on.event(*_selector(child), registry=registry)(child_changed)
    return registry


def kopf_settings() -> kopf.OperatorSettings:
    """Settings with which kopf watches, and does nothing else."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.scanning.disabled = True
    settings.execution.max_workers = 1
    settings.process.ultimate_exiting_timeout = 20
    settings.watching.server_timeout = SERVER_TIMEOUT
    settings.watching.client_timeout = SERVER_TIMEOUT + 15
    settings.watching.connect_timeout = 15
    settings.watching.reconnect_backoff = 1
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 10
    settings.persistence.finalizer = f"{GROUP}/finalizer"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP, v1=False)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=GROUP)
    for child in WATCHED_CHILDREN:
        settings.watching.label_selectors[_selector(child)] = f"{MANAGED_BY_LABEL}={MANAGED_BY}"
    return settings


def _selector(resource: Resource) -> tuple[str, str, str]:
    return resource.group, resource.version, resource.plural
