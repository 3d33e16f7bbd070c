"""A pod as the diagnosis reads it: the few facts of its manifest that say how far it got, and why no further."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from llmservice.workload.names import CLAIMED_ANNOTATION, OPENAI_CONTAINER, TRITON_CONTAINER, WORKER_CONTAINER
from llmservice.workload.queue import QUEUE_LABEL

EXIT_SIGKILL: Final = 137
"""128 + SIGKILL: how a container ends that the kernel killed for memory."""


@dataclass(frozen=True)
class Termination:
    """How a container ended."""

    exit_code: int
    reason: str
    message: str
    finished_at: str | None = None
    started_at: str | None = None


@dataclass(frozen=True)
class Container:
    """One container's state. At most one of `waiting`, `running_since` and `ended` is set.

    `started`: its startup probe has been answered. `memory_limit` is a Kubernetes quantity, empty where there is none.
    """

    name: str
    init: bool
    waiting: str = ""
    waiting_message: str = ""
    running_since: str | None = None
    ended: Termination | None = None
    ended_before: Termination | None = None
    restarts: int = 0
    ready: bool = False
    image: str = ""
    started: bool = False
    memory_limit: str = ""

    @property
    def failure(self) -> Termination | None:
        """How it last failed: now, or before its restart while it is not ready again."""
        if self.ended is not None:
            return self.ended if self.ended.exit_code else None
        if self.ended_before is not None and self.ended_before.exit_code and not self.ready:
            return self.ended_before
        return None


@dataclass(frozen=True)
class Pod:
    """What the diagnosis and the status need of one pod."""

    name: str
    uid: str
    phase: str
    reason: str
    message: str
    revision: str
    ip: str
    created: str | None
    deleting: bool
    ready: bool
    containers: tuple[Container, ...]
    conditions: Mapping[str, Mapping[str, Any]]
    requests: Mapping[str, int]
    annotations: Mapping[str, str]
    claims: Mapping[str, int] = field(default_factory=dict)
    """Devices that it claims, by DeviceClass."""
    gates: tuple[str, ...] = ()
    queue: str = ""
    nominated_node: str = ""
    tolerations: tuple[Mapping[str, Any], ...] = ()
    leader: str = ""
    """Of a worker: the pod that it helps."""

    @property
    def replica(self) -> str:
        """The pod that stands for its replica: its leader, else itself."""
        return self.leader or self.name

    @property
    def over(self) -> bool:
        """Whether it has ended for good: evicted or rejected. Its ReplicaSet has replaced it; it only lies about."""
        return self.phase in {"Failed", "Succeeded"}

    @property
    def alive(self) -> bool:
        """Whether it serves or may come to serve."""
        return not self.deleting and not self.over

    @property
    def main(self) -> Container | None:
        """The container that computes: Triton, or a worker's."""
        names = (TRITON_CONTAINER, WORKER_CONTAINER)
        return next((one for one in self.containers if not one.init and one.name in names), None)

    @property
    def endpoint(self) -> Container | None:
        """The container of the OpenAI endpoint."""
        return next((one for one in self.containers if one.name == OPENAI_CONTAINER), None)

    def init(self, name: str) -> Container | None:
        """One init container by name."""
        return next((one for one in self.containers if one.init and one.name == name), None)

    @property
    def restarts(self) -> int:
        """How often the Triton container was started again inside this pod."""
        return self.main.restarts if self.main else 0

    def since(self, condition: str) -> str | None:
        """When a condition became true."""
        found = self.conditions.get(condition, {})
        return found.get("lastTransitionTime") if found.get("status") == "True" else None


def read_pod(manifest: Mapping[str, Any], revision_label: str) -> Pod:
    """The facts of a Pod manifest as the API server has it."""
    metadata, spec, status = manifest["metadata"], manifest.get("spec", {}), manifest.get("status", {})
    conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
    deleting = metadata.get("deletionTimestamp") is not None
    return Pod(
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        phase=status.get("phase", "Pending"),
        reason=status.get("reason", ""),
        message=status.get("message", ""),
        revision=(metadata.get("labels") or {}).get(revision_label, ""),
        ip=status.get("podIP", ""),
        created=metadata.get("creationTimestamp"),
        deleting=deleting,
        ready=conditions.get("Ready", {}).get("status") == "True" and not deleting,
        containers=_containers(spec, status),
        conditions=conditions,
        requests=_extended_resources(spec),
        annotations=metadata.get("annotations") or {},
        claims=_claims(metadata.get("annotations") or {}),
        gates=tuple(gate["name"] for gate in spec.get("schedulingGates") or ()),
        queue=(metadata.get("labels") or {}).get(QUEUE_LABEL, ""),
        nominated_node=status.get("nominatedNodeName", ""),
        tolerations=tuple(spec.get("tolerations") or ()),
    )


def _containers(spec: Mapping[str, Any], status: Mapping[str, Any]) -> tuple[Container, ...]:
    read = []
    limits = {
        one["name"]: ((one.get("resources") or {}).get("limits") or {}).get("memory", "")
        for part in ("initContainers", "containers")
        for one in spec.get(part) or ()
    }
    for part, init in (("initContainerStatuses", True), ("containerStatuses", False)):
        read += [_container(one, limits.get(one["name"], ""), init=init) for one in status.get(part) or ()]
    known = {container.name for container in read}
    for part, init in (("initContainers", True), ("containers", False)):
        read += [
            Container(name=one["name"], init=init, image=one.get("image", ""))
            for one in spec.get(part) or ()
            if one["name"] not in known
        ]
    return tuple(read)


def _container(status: Mapping[str, Any], memory_limit: str, *, init: bool) -> Container:
    state, last = status.get("state") or {}, status.get("lastState") or {}
    waiting = state.get("waiting") or {}
    return Container(
        name=status["name"],
        init=init,
        waiting=waiting.get("reason", ""),
        waiting_message=waiting.get("message", ""),
        running_since=(state.get("running") or {}).get("startedAt"),
        ended=_termination(state.get("terminated")),
        ended_before=_termination(last.get("terminated")),
        restarts=status.get("restartCount", 0),
        ready=status.get("ready", False),
        image=status.get("image", ""),
        started=bool(status.get("started", False)),
        memory_limit=memory_limit,
    )


def _termination(terminated: Mapping[str, Any] | None) -> Termination | None:
    if terminated is None:
        return None
    return Termination(
        exit_code=terminated.get("exitCode", 0),
        reason=terminated.get("reason", ""),
        message=terminated.get("message", ""),
        finished_at=terminated.get("finishedAt"),
        started_at=terminated.get("startedAt"),
    )


def _extended_resources(spec: Mapping[str, Any]) -> dict[str, int]:
    """Accelerators that the pod asks for: extended resources have a slash in their name and whole numbers."""
    found: dict[str, int] = {}
    for container in spec.get("containers") or ():
        for name, quantity in ((container.get("resources") or {}).get("limits") or {}).items():
            if "/" in name and str(quantity).isdigit():
                found[name] = found.get(name, 0) + int(quantity)
    return found


def _claims(annotations: Mapping[str, str]) -> dict[str, int]:
    """What the operator wrote beside the pod's claim, whose own content is another object's."""
    try:
        said = json.loads(annotations.get(CLAIMED_ANNOTATION, "{}"))
    except ValueError:
        return {}
    items = said.items() if isinstance(said, dict) else ()
    return {str(name): count for name, count in items if isinstance(count, int)}
