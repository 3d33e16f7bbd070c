"""The ConfigMap with the rendered repository of one revision."""

from __future__ import annotations

from collections.abc import Mapping

from llmservice.api.service import LLMService
from llmservice.workload.manifest import Manifest, manifest
from llmservice.workload.names import LIVE_INPUTS_ANNOTATION, revision_name


def build_config_map(service: LLMService, revision: str, data: Mapping[str, str], live_inputs: str) -> Manifest:
    """The ConfigMap. Live changes are written here too, so that a pod that starts later starts with them."""
    built = manifest(
        service,
        "v1",
        "ConfigMap",
        revision_name(service.metadata.name, revision),
        revision=revision,
        annotations={LIVE_INPUTS_ANNOTATION: live_inputs},
    )
    built["data"] = dict(data)
    return built
