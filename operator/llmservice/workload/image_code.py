"""The init container that brings the code of NVIDIA's models from NVIDIA's image into the repository."""

from __future__ import annotations

from llmservice.api.fleet import FleetDefaults
from llmservice.api.service import LLMService
from llmservice.repository.topology import engine_model, topology
from llmservice.workload.container import container
from llmservice.workload.containers import ENV, variables
from llmservice.workload.manifest import Manifest
from llmservice.workload.names import CODE_CONTAINER


def build_code_containers(service: LLMService, image: str, fleet: FleetDefaults) -> list[Manifest]:
    """The container; none where all code is ours. It runs in the serving image, so code and backend are of one release.

    A version folder of Triton's stays read-only for the server itself.
    """
    copies = [model for model in topology(service) if model.image_code]
    if not copies:
        return []
    script = f"/repository/{engine_model(service).name}/1/llmserving/image_code.py"
    content: Manifest = {
        "command": ["python3"],
        "args": [script, *(f"--copy={model.image_code}:/repository/{model.name}/1" for model in copies)],
        "env": variables(ENV),
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
    }
    mounts: list[Manifest] = [
        {"name": "repository", "mountPath": "/repository"},
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the pod's own
    ]
    return [container(CODE_CONTAINER, image, fleet, content, mounts)]
