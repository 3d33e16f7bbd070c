"""Why a keeper of replicas has fewer pods than it should, and why groups of pods do not last.

A Deployment says in its status why no pod can be made. A LeaderWorkerSet and the StatefulSets it makes pods by say it
in events only: its conditions (Available, Progressing, UpdateInProgress) name no cause (kubernetes-sigs/lws,
pkg/controllers, `makeCondition`). What its events say was read in its versions 0.5.1 to 0.9.0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from llmservice.api.reasons import Reason
from llmservice.diagnose.finding import Finding

LEADER_WORKER_SET: Final = "LeaderWorkerSet"
STATEFUL_SET: Final = "StatefulSet"
MAKERS: Final = frozenset({LEADER_WORKER_SET, STATEFUL_SET})
"""Kinds whose events tell how the pods of groups are made."""

FAILED: Final = "FailedCreate"
MADE: Final = "SuccessfulCreate"
"""Of a StatefulSet: it made a pod."""
PROGRESSED: Final = "GroupsProgressing"
"""Of a LeaderWorkerSet: it made a StatefulSet, or anything else of it moved; the message tells which."""
RECREATED: Final = frozenset({"RecreateGroupOnPodRestart", "RecreateGroup"})
"""A pod of a group ended, so the group's leader was deleted and all of it starts again; to 0.8, and from 0.9 on."""

_PRIORITY_CLASS = re.compile(r"no PriorityClass with name (?P<name>\S+) was found")
_QUOTA = re.compile(r"exceeded quota|maximum \S+ usage per|minimum \S+ usage per|limitranger", re.IGNORECASE)
_STATEFUL_SET = re.compile(
    r"^(?:Created|Failed to create) (?:worker statefulset for leader pod|leader statefulset) "
    r"(?P<name>[^\s:]+)(?:: (?P<cause>.+))?$",
    re.DOTALL,
)
"""A StatefulSet of workers has the name of their leader, that of the leaders the name of the LeaderWorkerSet."""
_ENDED = re.compile(r"(?P<pod>\S+) failed, deleted leader pod (?P<leader>\S+) ")


@dataclass(frozen=True)
class KeeperEvent:
    """What happened to an object of one of these kinds, how often, and when last: in whole seconds since the epoch."""

    kind: str
    reason: str
    message: str
    count: int = 1
    at: int = 0


def deployment_finding(deployment: Mapping[str, Any]) -> Finding | None:
    """Why a Deployment's pods cannot even be created: a quota, an admission rule; None where they can."""
    for condition in (deployment.get("status") or {}).get("conditions") or ():
        if condition["type"] == "ReplicaFailure" and condition["status"] == "True":
            return _not_created(condition.get("message", ""))
    return None


def missing_pods_finding(stateful_set: str, events: Sequence[KeeperEvent]) -> Finding | None:
    """Why pods of a StatefulSet of groups are missing; None where the last try made it, or some of them.

    `events` are about it and about its LeaderWorkerSet, each oldest first.
    """
    pods = [event for event in events if event.kind == STATEFUL_SET and event.reason in (FAILED, MADE)]
    if pods and pods[-1].reason == FAILED:
        return _not_created(pods[-1].message)
    tries = [
        (event, found)
        for event in events
        if event.kind == LEADER_WORKER_SET
        and event.reason in (FAILED, PROGRESSED)
        and (found := _STATEFUL_SET.search(event.message))
        and found["name"] == stateful_set
    ]
    if not tries or tries[-1][0].reason != FAILED:
        return None
    last, found = tries[-1]
    if found["cause"]:
        return _not_created(last.message)
    if any(event.at >= last.at for event in pods):
        return None
    return _without_cause(stateful_set, last.message)


def recreated_finding(leader: str, nodes: int, events: Sequence[KeeperEvent]) -> Finding | None:
    """How often the group of `leader` was started again, and by whose end; None up to once for each of its `nodes`.

    So often all of them may have been drained, one after the other. The pods that ended are gone with their logs, and
    those in their place have not failed yet.
    """
    ends = [(_ENDED.search(event.message), event.count) for event in events if event.reason in RECREATED]
    mine = [(found["pod"], count) for found, count in ends if found and found["leader"] == leader]
    times = sum(count for _, count in mine)
    if times <= nodes:
        return None
    pod = mine[-1][0]
    text = (
        f"pod {pod} ended, and its group was started again as a whole, {times} times of late: what it said went with "
        f"it, so follow its log while it starts, by `kubectl logs -f {pod}`"
    )
    return Finding(Reason.CRASH_LOOP, text, pod=leader, replica=leader)


def _without_cause(stateful_set: str, text: str) -> Finding:
    """No fault: up to 0.8 a LeaderWorkerSet tells no cause, and the same where the StatefulSet was there already."""
    return Finding(
        Reason.STARTING,
        "pods of a group are missing, and the LeaderWorkerSet does not say why: the cause is in the log of "
        f"LeaderWorkerSet's controller. It says: {text}",
        replica=stateful_set,
        fault=False,
    )


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
