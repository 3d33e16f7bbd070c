"""Kubernetes Events about an object: one Event for each thing that happened, counted when it happens again.

Events are core/v1 because `kubectl describe` reads `count`, `firstTimestamp` and `lastTimestamp` and shows them as
"3m (x5 over 1h)". The name follows from object, reason and message, so two processes and two lives of one process
write the same Event. Callers record transitions only.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from llmservice.kube.client import KubeClient
from llmservice.kube.clock import Clock, SystemClock, timestamp
from llmservice.kube.errors import AlreadyExists, Conflict, KubeError, NamespaceTerminating
from llmservice.kube.resources import EVENT, Manifest

COMPONENT: Final = "triton-llm-operator"
_LONGEST_MESSAGE: Final = 1024
"""Bytes of a message that the API server accepts in a core/v1 Event."""
_LONGEST_NAME: Final = 253

_log = logging.getLogger(__name__)


class EventType(StrEnum):
    """What `kubectl get events --field-selector type=` knows."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True)
class Recorder:
    """Writes Events through a client. `instance` names the process, usually the pod."""

    client: KubeClient
    instance: str = ""
    clock: Clock = field(default_factory=SystemClock)

    async def record(self, about: Manifest, *, reason: str, message: str, kind: EventType = EventType.NORMAL) -> bool:
        """Record that something happened to the object `about`, which needs its uid.

        False, and a line in the log, when the API server did not take it: an Event is never worth a failed pass.
        In a namespace that is being deleted none can be created, which is nobody's fault and no warning.
        """
        event = self.render(about, reason=reason, message=message, kind=kind)
        try:
            await self._store(event)
        except NamespaceTerminating:
            _log.debug("event not recorded: its namespace goes", extra={"event": event["metadata"]["name"]})
            return False
        except KubeError as error:
            _log.warning("event not recorded: %s", error, extra={"reason": reason, "event": event["metadata"]["name"]})
            return False
        return True

    def render(self, about: Manifest, *, reason: str, message: str, kind: EventType) -> Manifest:
        """The Event as it looks the first time."""
        metadata = about["metadata"]
        moment = timestamp(self.clock.now())
        reference = {
            "apiVersion": about["apiVersion"],
            "kind": about["kind"],
            "name": metadata["name"],
            "uid": metadata["uid"],
        }
        if metadata.get("namespace"):
            reference["namespace"] = metadata["namespace"]
        if metadata.get("resourceVersion"):
            reference["resourceVersion"] = metadata["resourceVersion"]
        return {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {
                "name": event_name(about, reason, message),
                "namespace": metadata.get("namespace") or "default",
            },
            "involvedObject": reference,
            "type": kind.value,
            "reason": reason,
            "message": _shortened(message),
            "count": 1,
            "firstTimestamp": moment,
            "lastTimestamp": moment,
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": self.instance,
        }

    async def _store(self, event: Manifest) -> None:
        try:
            await self.client.create(event)
        except AlreadyExists:
            await self._count(event)

    async def _count(self, event: Manifest) -> None:
        stored = await self.client.get(EVENT, event["metadata"]["namespace"], event["metadata"]["name"])
        if stored is None:  # expired between the two calls
            await self.client.create(event)
            return
        stored["count"] = int(stored.get("count") or 1) + 1
        stored["lastTimestamp"] = event["lastTimestamp"]
        try:
            await self.client.replace(stored)
        except Conflict:
            _log.debug("event counted by another process", extra={"event": event["metadata"]["name"]})


def seen_at(event: Manifest) -> str:
    """When an Event was last seen, as Kubernetes writes instants; those of events.k8s.io count in a series."""
    last = (event.get("series") or {}).get("lastObservedTime") or event.get("lastTimestamp")
    return str(last or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")


def last_seen(event: Manifest) -> datetime:
    """When an Event was last seen; the first of all instants where it does not say.

    Instants have whole seconds or microseconds, by who wrote them: as text they have no order.
    """
    text = seen_at(event)
    return datetime.fromisoformat(text) if text else datetime.min.replace(tzinfo=UTC)


def times_seen(event: Manifest) -> int:
    """How often it happened."""
    return int((event.get("series") or {}).get("count") or event.get("count") or 1)


def event_name(about: Manifest, reason: str, message: str) -> str:
    """`<object>.<hash of uid, reason and message>`, a valid name of at most 253 characters."""
    text = "\0".join((about["metadata"]["uid"], reason, message))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{about['metadata']['name'][: _LONGEST_NAME - len(digest) - 1]}.{digest}"


def _shortened(message: str) -> str:
    data = message.encode()
    if len(data) <= _LONGEST_MESSAGE:
        return message
    return data[: _LONGEST_MESSAGE - 3].decode(errors="ignore") + "..."
