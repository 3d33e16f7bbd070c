"""The chain of checks over a pod, the most specific first, and the one reason for a whole service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from llmservice.api.reasons import Reason
from llmservice.diagnose import objects, scheduling, startup
from llmservice.diagnose.finding import Check, Evidence, Finding
from llmservice.diagnose.pool import PoolSeen, in_words

CHAIN: Final[tuple[Check, ...]] = (
    objects.rejected_by_node,
    objects.secret_missing,
    objects.volume_missing,
    scheduling.unschedulable,
    startup.image_pull_failed,
    startup.lease_failed,
    startup.weights_failed,
    startup.conversion_failed,
    startup.repository_failed,
    startup.code_failed,
    startup.out_of_memory,
    startup.model_load_failed,
    startup.probe_failed,
    startup.crash_loop,
    startup.endpoint_failed,
    startup.fetching_weights,
    startup.pulling_image,
    startup.stopped_answering,
    startup.loading_model,
    startup.starting,
)


def pod_finding(evidence: Evidence) -> Finding | None:
    """Why this pod does not serve; None where it does, or is on its way out."""
    if evidence.pod.ready or evidence.pod.deleting:
        return None
    for check in CHAIN:
        finding = check(evidence)
        if finding is not None:
            return replace(finding, pod=evidence.pod.name, replica=evidence.pod.replica)
    return None


def service_finding(findings: Sequence[Finding], pool: str = "", seen: PoolSeen | None = None) -> Finding | None:
    """The one finding that explains a service: a fault before mere progress, then the earliest check of the chain.

    The number of pods it concerns is part of the message, and of accelerators how many are missing, in which `pool`,
    and what is free there by failure domain where somebody has `seen` its nodes.
    """
    if not findings:
        return None
    first = min(findings, key=lambda finding: (not finding.fault, _rank(finding.reason), finding.pod))
    alike = [finding for finding in findings if finding.reason == first.reason]
    same = len({finding.replica or str(index) for index, finding in enumerate(alike)})
    if first.reason in scheduling.WAITING:
        who = "1 replica waits" if same == 1 else f"{same} replicas wait"
        lacking = _lacking(alike)
        what = f" for {lacking}" + (f" in pool {pool}" if pool else "") if lacking else ""
        said = f"{who}{what}{_where(first, seen)}: {first.message}"
        return replace(first, message=said, replicas=same, pods=len(alike))
    return replace(first, message=f"{same} replicas: {first.message}") if same > 1 else first


def _where(finding: Finding, seen: PoolSeen | None) -> str:
    """What is free in the pool, in brackets; empty where accelerators are not what is missing."""
    asked = dict(finding.lacks).get(seen.resource, 0) if seen else 0
    if seen is None or not asked or finding.reason is not Reason.WAITING_FOR_GPU:
        return ""
    return f" ({in_words(seen, asked)})"


def _lacking(findings: Sequence[Finding]) -> str:
    """The accelerators that all of `findings` wait for: `6 nvidia.com/gpu`."""
    total: dict[str, int] = {}
    for finding in findings:
        for resource, count in finding.lacks:
            total[resource] = total.get(resource, 0) + count
    return ", ".join(f"{count} {resource}" for resource, count in sorted(total.items()))


def _rank(reason: Reason) -> int:
    return list(Reason).index(reason)
