"""Why a keeper of replicas has fewer pods than it should, and why groups of pods do not last.

A Deployment says in its status why no pod can be made. A LeaderWorkerSet and the StatefulSets it makes pods by say it
in events only: its conditions (Available, Progressing, UpdateInProgress) name no cause (kubernetes-sigs/lws,
pkg/controllers, `makeCondition`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from llmservice.api.reasons import Reason
from llmservice.diagnose.finding import Finding

MADE: Final = {"StatefulSet": "SuccessfulCreate", "LeaderWorkerSet": "GroupsProgressing"}
"""Kinds that make the pods of groups, and the reason of their event when they did."""

FAILED: Final = "FailedCreate"
RECREATED: Final = "RecreateGroup"
"""A pod of a group ended, so the group's leader was deleted and all of it starts again."""

_PRIORITY_CLASS = re.compile(r"no PriorityClass with name (?P<name>\S+) was found")
_QUOTA = re.compile(r"exceeded quota|maximum \S+ usage per|minimum \S+ usage per|limitranger", re.IGNORECASE)
_ENDED = re.compile(r"(?P<pod>\S+) failed, deleted leader pod (?P<leader>\S+) ")


@dataclass(frozen=True)
class KeeperEvent:
    """What happened to an object of one of these kinds, and how often."""

    kind: str
    reason: str
    message: str
    count: int = 1


def deployment_finding(deployment: Mapping[str, Any]) -> Finding | None:
    """Why a Deployment's pods cannot even be created: a quota, an admission rule; None where they can."""
    for condition in (deployment.get("status") or {}).get("conditions") or ():
        if condition["type"] == "ReplicaFailure" and condition["status"] == "True":
            return _not_created(condition.get("message", ""))
    return None


def missing_pods_finding(events: Sequence[KeeperEvent]) -> Finding | None:
    """Why pods of groups are missing, by events about what makes them, oldest first; None where the last made some."""
    for kind, made in MADE.items():
        tries = [event for event in events if event.kind == kind and event.reason in (FAILED, made)]
        if tries and tries[-1].reason == FAILED:
            return _not_created(tries[-1].message)
    return None


def recreated_finding(leader: str, events: Sequence[KeeperEvent]) -> Finding | None:
    """How often the group of `leader` was started again, and by whose end; None below twice: a node may be drained.

    The pods that ended are gone with their logs, and those in their place have not failed yet.
    """
    ends = [(_ENDED.search(event.message), event.count) for event in events if event.reason == RECREATED]
    mine = [(found["pod"], count) for found, count in ends if found and found["leader"] == leader]
    times = sum(count for _, count in mine)
    if times < 2:
        return None
    pod = mine[-1][0]
    text = (
        f"pod {pod} ended, and its group was started again as a whole, {times} times of late: what it said went with "
        f"it, so follow its log while it starts, by `kubectl logs -f {pod}`"
    )
    return Finding(Reason.CRASH_LOOP, text, pod=leader, replica=leader)


def _not_created(text: str) -> Finding:
    if _QUOTA.search(text):
        return Finding(
            Reason.QUOTA_EXCEEDED,
            "the namespace's quota or limits allow no further pod: raise them, or ask for less. "
            f"Kubernetes says: {text}",
        )
    unknown = _PRIORITY_CLASS.search(text)
    if unknown is not None:
        return Finding(
            Reason.FORBIDDEN,
            f"there is no PriorityClass {unknown['name']!r}: create it, or correct template.priorityClassName of "
            f"the service or its pool. Kubernetes says: {text}",
        )
    return Finding(Reason.FORBIDDEN, f"Kubernetes refuses to create the pod: {text}")
