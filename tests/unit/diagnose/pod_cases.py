"""Pod states as the kubelet and the scheduler write them, each with the cause it is to be read as."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llmservice.api.reasons import Reason

LOGS = Path(__file__).parent / "logs"
SCHEDULED = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
RUNNING = {"running": {"startedAt": "2026-01-01T00:01:00Z"}}
DONE = {"terminated": {"exitCode": 0, "reason": "Completed"}}
INITIALIZED = [{"name": "repository", "state": DONE}, {"name": "weights", "state": DONE}]


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"waiting": {"reason": reason, "message": message}}


def failed(code: int, reason: str = "Error", message: str = "") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "message": message}}


def triton(
    state: dict[str, Any], *, last: dict[str, Any] | None = None, restarts: int = 0, started: bool = False
) -> list[dict[str, Any]]:
    return [
        {
            "name": "triton",
            "image": "nvcr.io/nvidia/tritonserver:26.07-py3",
            "ready": False,
            "restartCount": restarts,
            "state": state,
            "lastState": last or {},
            "started": started,
        }
    ]


def fetching(name: str, state: dict[str, Any], last: dict[str, Any] | None = None) -> dict[str, Any]:
    """The status of a pod whose repository is written, with the init container `name` in `state`."""
    return {
        "phase": "Pending",
        "conditions": [SCHEDULED],
        "initContainerStatuses": [INITIALIZED[0], {"name": name, "state": state, "lastState": last or {}}],
        "containerStatuses": triton(waiting("PodInitializing")),
    }


def together(*statuses: dict[str, Any]) -> dict[str, Any]:
    """One pod that has the init containers of all."""
    containers = {one["name"]: one for status in statuses for one in status["initContainerStatuses"]}
    return {**statuses[0], "initContainerStatuses": list(containers.values())}


def initialized(containers: list[dict[str, Any]]) -> dict[str, Any]:
    """The status of a pod whose init containers are done."""
    return {
        "phase": "Running",
        "conditions": [SCHEDULED],
        "initContainerStatuses": INITIALIZED,
        "containerStatuses": containers,
    }


@dataclass(frozen=True)
class Case:
    """A pod's status and what it means."""

    name: str
    reason: Reason
    says: str
    status: dict[str, Any] = field(default_factory=dict)
    events: tuple[str, ...] = ()
    log: str = ""
    weights_log: str = ""
    limits: dict[str, str] = field(default_factory=dict)
    fault: bool = True
    claimed: str = "{}"
    gates: tuple[str, ...] = ()


def unscheduled(message: str, reason: str = "Unschedulable") -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    return {"phase": "Pending", "conditions": [condition]}
