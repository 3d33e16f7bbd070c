"""What every container of a pod has."""

from __future__ import annotations

from llmservice.api.fleet import FleetDefaults
from llmservice.workload.manifest import Manifest
from llmservice.workload.security import container_security


def container(name: str, image: str, fleet: FleetDefaults, content: Manifest, mounts: list[Manifest]) -> Manifest:
    """A container with `content` of its own; without rights, and its last words come with the pod's status."""
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": fleet.image_pull_policy,
        **content,
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **({"volumeMounts": mounts} if mounts else {}),
    }
