"""What no container of a pod may do."""

from __future__ import annotations

from llmservice.workload.manifest import Manifest


def container_security() -> Manifest:
    """No container gains rights or writes outside its volumes."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
