"""Names and paths that the renderer, gate and engine agree on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ENGINE_SUFFIX: Final = "-engine"
PREPROCESSING: Final = "preprocessing"
POSTPROCESSING: Final = "postprocessing"
"""Before and after TensorRT-LLM's engine; NVIDIA's BLS model calls them by these names, whatever the service's is."""
CONFIG_FILE: Final = "config.pbtxt"


@dataclass(frozen=True)
class Paths:
    """Where gate and engine find each other and the weights. The defaults are those inside a pod."""

    run_directory: str = "/dev/shm/llmservice"  # noqa: S108 - the pod's own memory volume, nobody else's
    model_path: str = "/models"


POD_PATHS: Final = Paths()


def gate_name(service: str) -> str:
    """The Triton model that clients of `service` call: the gate, or what stands in its place (`topology.py`)."""
    return service


def engine_name(service: str) -> str:
    """The Triton model that holds the weights of `service`, where clients call another."""
    return service + ENGINE_SUFFIX
