"""Which Triton models serve a service, and where the code of each comes from.

With `driver: Native` the gate stands before an engine of ours. Before a stock backend there is no gate: relaying every
token cost 20 % and 25 to 40 ms, and would still not know who waits inside (docs/decisions/0019).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from llmservice.api.engine import Backend, Driver
from llmservice.api.service import LLMService
from llmservice.api.tensorrtllm import Chain, Runtime
from llmservice.repository.layout import POSTPROCESSING, PREPROCESSING, engine_name, gate_name

LIBRARY_CODE: Final = "library"
"""Code of an engine that is not ours: only the library that every pod's steps run (`llmserving`), no `model.py`."""

LLM_API_CODE: Final = "/app/all_models/llmapi/tensorrt_llm/1"
PIPELINE_CODE: Final = "/app/all_models/inflight_batcher_llm"
"""Where NVIDIA's images have the Python of their models (dockerfile/Dockerfile.triton.trt_llm_backend)."""


class Role(StrEnum):
    """What a Triton model of a service does."""

    GATE = "Gate"
    ENGINE = "Engine"
    CHAIN = "Chain"
    """TensorRT-LLM's ensemble or BLS model, which clients call."""
    PREPROCESSING = "Preprocessing"
    POSTPROCESSING = "Postprocessing"


@dataclass(frozen=True)
class RepositoryModel:
    """One Triton model.

    `code` names the folder of `model_repository/` whose files it runs, `LIBRARY_CODE`, or is empty. `image_code` is a
    folder of the serving image whose files are copied into its version folder before Triton starts; empty for none.
    """

    name: str
    role: Role
    code: str
    image_code: str = ""


def topology(service: LLMService) -> tuple[RepositoryModel, ...]:
    """The models of `service` in the order in which clients meet them: the first is the one they call."""
    name, engine = service.metadata.name, service.spec.engine
    if engine.driver is Driver.NATIVE:
        return (
            RepositoryModel(gate_name(name), Role.GATE, "gate"),
            RepositoryModel(engine_name(name), Role.ENGINE, engine.backend.value),
        )
    if engine.backend is not Backend.TENSORRTLLM:
        return (RepositoryModel(gate_name(name), Role.ENGINE, LIBRARY_CODE),)
    if not runs_engine(service):
        return (RepositoryModel(gate_name(name), Role.ENGINE, LIBRARY_CODE, LLM_API_CODE),)
    built = engine.tensorrtllm.engine if engine.tensorrtllm else None
    bls = built is not None and built.chain is Chain.BLS
    return (
        RepositoryModel(gate_name(name), Role.CHAIN, "", f"{PIPELINE_CODE}/tensorrt_llm_bls/1" if bls else ""),
        RepositoryModel(POSTPROCESSING, Role.POSTPROCESSING, "", f"{PIPELINE_CODE}/postprocessing/1"),
        RepositoryModel(engine_name(name), Role.ENGINE, LIBRARY_CODE),
        RepositoryModel(PREPROCESSING, Role.PREPROCESSING, "", f"{PIPELINE_CODE}/preprocessing/1"),
    )


def runs_engine(service: LLMService) -> bool:
    """Whether an engine that trtllm-build made is run, by TensorRT-LLM's C++ backend."""
    options = service.spec.engine.tensorrtllm
    return options is not None and options.runtime is Runtime.ENGINE


def engine_model(service: LLMService) -> RepositoryModel:
    """The model of `service` that holds the weights; its version folder also has the library."""
    return next(model for model in topology(service) if model.role is Role.ENGINE)
