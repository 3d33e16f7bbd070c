"""`spec.engine`: what computes."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from llmservice.api.schema import ApiModel


class Backend(StrEnum):
    """The library that computes."""

    TORCH = "torch"
    VLLM = "vllm"
    TENSORRTLLM = "tensorrtllm"


class Driver(StrEnum):
    """Who drives the backend inside Triton."""

    NATIVE = "Native"
    NVIDIA = "Nvidia"


class Parallelism(ApiModel):
    """How one replica is split; GPUs per replica = tensor * pipeline."""

    tensor: Annotated[int, Field(ge=1, le=64)] = 1
    pipeline: Annotated[int, Field(ge=1, le=64)] = 1


class TorchOptions(ApiModel):
    """What only the torch backend knows."""

    length_buckets: Annotated[
        list[Annotated[int, Field(ge=1, le=10_485_760)]],
        Field(max_length=32, description="Upper ends of the prompt-length buckets, in tokens, ascending."),
    ] = [32, 64, 128, 256, 512, 1024]


class EngineSpec(ApiModel):
    """The engine: the Triton model that holds the weights."""

    backend: Backend = Backend.TORCH
    driver: Driver = Driver.NATIVE
    image: Annotated[
        str | None, Field(min_length=1, max_length=512, description="Triton image. Omitted: the fleet's default.")
    ] = None
    parallelism: Parallelism = Parallelism()
    parameters: Annotated[
        dict[Annotated[str, Field(max_length=128)], Annotated[str, Field(max_length=2048)]],
        Field(max_length=64, description="Passed to the backend as they are, unless the operator owns the key."),
    ] = {}
    torch: TorchOptions | None = None
