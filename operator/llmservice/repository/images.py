"""NVIDIA's serving images by tag, and what the stock vLLM backend of each takes, tells and refuses."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from llmservice.repository.errors import UnknownTritonVersionError
from llmservice.repository.features import parse_version

_TAG: Final = re.compile(r"^.*/tritonserver:(\d\d\.\d\d)-.*$")


@dataclass(frozen=True)
class ServingImage:
    """One release: its tag (`26.07`) and the versions in it."""

    tag: str
    triton: str
    vllm: str
    tensorrtllm: str


@dataclass(frozen=True)
class Tensor:
    """One input or output of a model; `dims` -1 is any size."""

    name: str
    data_type: str
    dims: tuple[int, ...]


@dataclass(frozen=True)
class StockVllm:
    """NVIDIA's vLLM backend in one image; see images.toml for each field."""

    image: ServingImage
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    metrics_value: str
    lora_as_text: bool
    health_check: bool
    speculative_config: bool
    lora_ranks: tuple[int, ...]


@cache
def serving_images() -> tuple[ServingImage, ...]:
    """Every known image, oldest first."""
    return tuple(ServingImage(tag, **versions) for tag, versions in sorted(_tables()["images"].items()))


def image_with(triton_version: str) -> ServingImage:
    """The newest image whose Triton is not newer than `triton_version`, such as `2.71.0`.

    Raises UnknownTritonVersionError for text that is no version, and for one older than every known image.
    """
    asked = parse_version(triton_version)
    known = [image for image in serving_images() if parse_version(image.triton) <= asked]
    if not known:
        oldest = serving_images()[0]
        raise UnknownTritonVersionError(
            f"Triton {triton_version} is older than {oldest.triton}, the oldest whose stock backends are known: use an "
            f"image of {oldest.tag} or later"
        )
    return known[-1]


def triton_version_of(image: str) -> str | None:
    """The Triton version in one of NVIDIA's own images, by its tag; None for any other name or an unknown tag."""
    found = _TAG.match(image)
    tags = {known.tag: known.triton for known in serving_images()}
    return tags.get(found.group(1)) if found else None


def stock_vllm(triton_version: str) -> StockVllm:
    """The stock vLLM backend in the image with `triton_version`. Raises UnknownTritonVersionError."""
    return _stock_vllm(image_with(triton_version))


@cache
def _stock_vllm(image: ServingImage) -> StockVllm:
    inputs: dict[str, Any] = {}
    outputs: dict[str, Any] = {}
    facts: dict[str, Any] = {}
    for tag, changes in sorted(_tables()["vllmBackend"].items()):
        if tag > image.tag:
            break
        rest = dict(changes)
        inputs |= rest.pop("inputs", {})
        outputs |= rest.pop("outputs", {})
        facts |= rest
    return StockVllm(
        image,
        _tensors(inputs),
        _tensors(outputs),
        metrics_value=facts["metricsValue"],
        lora_as_text=facts["loraAsText"],
        health_check=facts["healthCheck"],
        speculative_config=facts["speculativeConfig"],
        lora_ranks=tuple(facts["loraRanks"]),
    )


def _tensors(table: Mapping[str, Any]) -> tuple[Tensor, ...]:
    return tuple(Tensor(name, data_type, (size,)) for name, (data_type, size) in table.items())


@cache
def _tables() -> Mapping[str, Any]:
    return tomllib.loads(files(__package__).joinpath("images.toml").read_text(encoding="utf-8"))
