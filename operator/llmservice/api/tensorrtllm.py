"""`spec.engine.tensorrtllm`: what only the TensorRT-LLM backend knows."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from llmservice.api.schema import ApiModel, Rule

INSTANCE_COUNTS: Final = ("preprocessing_instance_count", "postprocessing_instance_count", "bls_instance_count")
"""Engine parameters that are counts of instances; the names are those of NVIDIA's templates."""


class Runtime(StrEnum):
    """What runs the model: the LLM API on PyTorch, from any Hugging Face folder, or an engine built before."""

    PYTORCH = "PyTorch"
    ENGINE = "Engine"


class Chain(StrEnum):
    """How preprocessing, engine and postprocessing are put one after the other; Triton's own words."""

    ENSEMBLE = "Ensemble"
    BLS = "BLS"


class BuiltEngine(ApiModel):
    """What an engine was built for. The source's folder holds the engine: `config.json` and `rank*.engine`."""

    compute_capability: Annotated[
        str | None,
        Field(
            max_length=5,
            description="Compute capability of the GPU it was built on, such as 8.0 for A100. An engine runs on no "
            "other. Omitted: not checked before it is loaded.",
        ),
    ] = None
    max_batch_size: Annotated[
        int | None, Field(ge=1, le=4096, description="trtllm-build's max_batch_size. Omitted: the plan's sequences.")
    ] = None
    chain: Annotated[
        Chain,
        Field(
            description="Ensemble: Triton's own, without a process for each request. BLS: a Python model with an "
            "instance for each sequence, needed for draft models and tokenizers that look at several tokens."
        ),
    ] = Chain.ENSEMBLE

    rules = (
        Rule(
            code="own-compute-capability",
            expression="!has(self.computeCapability) || self.computeCapability.matches('^[0-9]{1,2}[.][0-9]$')",
            message='"%s is no compute capability: write it as 8.0 (A100), 8.9 (L40S) or 9.0 (H100)"'
            ".format([self.computeCapability])",
            field_path=".computeCapability",
        ),
    )


class TensorRTLLMOptions(ApiModel):
    """What only the tensorrtllm backend knows."""

    runtime: Annotated[
        Runtime,
        Field(
            description="PyTorch: the LLM API, from the model's own files. Engine: the C++ backend with in-flight "
            "batching, from an engine that trtllm-build made."
        ),
    ] = Runtime.PYTORCH
    engine: Annotated[BuiltEngine | None, Field(description="Of runtime Engine: what was built.")] = None

    rules = (
        Rule(
            code="own-engine-runtime",
            expression="!has(self.engine) || self.runtime == 'Engine'",
            message='"runtime PyTorch builds no engine, so tensorrtllm.engine means nothing: remove it, or write '
            'runtime: Engine"',
            field_path=".engine",
        ),
    )
