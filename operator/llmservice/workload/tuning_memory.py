"""The ConfigMap with what the tuner remembers of a service, so that a new operator goes on where the last one was."""

from __future__ import annotations

from typing import Final

from llmservice.api.service import LLMService
from llmservice.workload.manifest import Manifest, manifest
from llmservice.workload.names import memory_name

MEMORY_KEY: Final = "state.json"


def build_tuning_memory(service: LLMService, state: str) -> Manifest:
    """The ConfigMap; `state` is JSON, bounded by the tuner."""
    built = manifest(service, "v1", "ConfigMap", memory_name(service.metadata.name))
    built["data"] = {MEMORY_KEY: state}
    return built
