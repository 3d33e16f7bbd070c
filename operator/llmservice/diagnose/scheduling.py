"""Why no node takes a pod: a queue that holds it, accelerators that are missing, constraints that nothing meets."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from llmservice.api.reasons import Reason
from llmservice.diagnose.finding import Evidence, Finding
from llmservice.diagnose.pod import Pod

WAITING: Final = frozenset({Reason.WAITING_FOR_GPU, Reason.WAITING_FOR_QUEUE, Reason.UNSCHEDULABLE})
"""Reasons of pods that have no node."""

KUEUE: Final = "kueue.x-k8s.io/"
"""Kueue's gates: `admission`, and `topology` while it chooses the nodes."""

_INSUFFICIENT = re.compile(r"(?P<nodes>\d+) Insufficient (?P<resource>[\w.-]+/[\w.-]*\w)")
_NO_NODE_OF_THE_POOL = "didn't match Pod's node affinity/selector"
_NO_DEVICES = re.compile(r"cannot allocate all claims|resourceclaim|device ?class", re.IGNORECASE)
_UNKNOWN_CLASS = re.compile(r"device ?class (?P<name>\S+) does not exist", re.IGNORECASE)
_SPREAD = "didn't match pod topology spread constraints"
_PREEMPTION = re.compile(r"\s*((still not schedulable|no new claims to deallocate), )?preemption: .*$", re.DOTALL)
_TRY = "free some, add nodes to the pool, or place the service in another pool (spec.placement.pool)"


def unschedulable(evidence: Evidence) -> Finding | None:
    """Why the scheduler finds no node; None where it has one, or has not looked yet."""
    pod = evidence.pod
    scheduled = pod.conditions.get("PodScheduled", {})
    if scheduled.get("status") != "False":
        return None
    text = _PREEMPTION.sub("", scheduled.get("message", "")).strip()
    if scheduled.get("reason") == "SchedulingGated":
        return _gated(pod)
    if pod.nominated_node:
        return Finding(
            Reason.WAITING_FOR_GPU,
            f"node {pod.nominated_node} is being freed for it: pods of lower priority are leaving",
            fault=False,
            lacks=_asked(pod),
        )
    return _lacking(pod, text) or _constrained(text)


def _gated(pod: Pod) -> Finding:
    """Somebody holds the pod back before the scheduler may look at it."""
    if any(gate.startswith(KUEUE) for gate in pod.gates):
        return Finding(
            Reason.WAITING_FOR_QUEUE,
            f"Kueue has not yet admitted the pod to queue {pod.queue or '(its default)'}: `kubectl get workloads` says "
            "why. It starts once the queue has room",
            fault=False,
            lacks=_asked(pod),
        )
    named = f" {', '.join(pod.gates)}" if pod.gates else ""
    return Finding(
        Reason.UNSCHEDULABLE,
        f"the pod is held by a scheduling gate{named}: whoever set the gate has to lift it",
        fault=False,
    )


def _lacking(pod: Pod, text: str) -> Finding | None:
    """Accelerators that are taken, or that no node of the pool has."""
    unknown = _UNKNOWN_CLASS.search(text)
    if unknown is not None:
        return Finding(
            Reason.WAITING_FOR_GPU,
            f"there is no DeviceClass {unknown['name']}: install the driver that brings it, correct the pool's "
            f"deviceClass, or write placement.allocation: ExtendedResource. The scheduler says: {text}",
            lacks=_asked(pod),
        )
    if pod.claims and _NO_DEVICES.search(text):
        return Finding(
            Reason.WAITING_FOR_GPU,
            f"no node has {_words(sorted(pod.claims.items()))} free to claim: {_TRY}. The scheduler says: {text}",
            lacks=_asked(pod),
        )
    lacking = _INSUFFICIENT.search(text)
    if lacking is not None:
        wanted = pod.requests.get(lacking["resource"], 1)
        return Finding(
            Reason.WAITING_FOR_GPU,
            f"no node has {wanted} {lacking['resource']} free: {_TRY}. The scheduler says: {text}",
            lacks=((lacking["resource"], wanted),),
        )
    if _asked(pod) and _NO_NODE_OF_THE_POOL in text and _SPREAD not in text:
        return Finding(
            Reason.WAITING_FOR_GPU,
            f"{_words(_asked(pod))} missing, for no node belongs to the pool: add nodes to it, correct its node "
            f"selector, or place the service in another pool (spec.placement.pool). The scheduler says: {text}",
            lacks=_asked(pod),
        )
    return None


def _constrained(text: str) -> Finding:
    """Nodes there are, and none may take the pod."""
    if _SPREAD in text:
        return Finding(
            Reason.UNSCHEDULABLE,
            "the failure domains that have room hold too many replicas already: free accelerators in the others, or "
            f"write placement.spread: Preferred. The scheduler says: {text}",
        )
    return Finding(
        Reason.UNSCHEDULABLE,
        f"no node takes the pod: check the pool's node selector and tolerations. The scheduler says: {text}",
    )


def _asked(pod: Pod) -> tuple[tuple[str, int], ...]:
    """The accelerators of one pod: claimed devices by class, or extended resources."""
    return tuple(sorted({**pod.requests, **pod.claims}.items()))


def _words(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts)
