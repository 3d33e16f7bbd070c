"""What every `KubeClient` does: cases that run on the fake and on a real API server, so that the fake stays honest.

A case is a coroutine of (client, namespace). The namespace exists and is empty; names may repeat between cases.
"""

from __future__ import annotations

from tests.kube_contract import objects, ownership, refusals
from tests.kube_contract.registry import CASES, Case

__all__ = ["CASES", "Case", "objects", "ownership", "refusals"]
