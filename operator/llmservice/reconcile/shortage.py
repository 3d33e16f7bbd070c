"""Accelerators that are missing, as the status shows them: pure."""

from __future__ import annotations

from llmservice.api.reasons import Reason
from llmservice.api.status import FailureDomain, Shortage
from llmservice.diagnose.finding import Finding
from llmservice.diagnose.pool import PoolSeen


def report_shortage(finding: Finding | None, seen: PoolSeen | None) -> Shortage | None:
    """What the replicas that `finding` is of wait for; None where it is no accelerators."""
    if finding is None or finding.reason is not Reason.WAITING_FOR_GPU or not finding.lacks:
        return None
    resource, each = finding.lacks[0]
    domains = seen.domains if seen is not None and seen.resource == resource else ()
    return Shortage(
        resource=resource,
        replicas=finding.replicas,
        missing=finding.pods * each,
        domains=[
            FailureDomain(name=one.name, nodes=one.nodes, offered=one.offered, free=one.free, largest=one.largest)
            for one in domains
        ],
    )
