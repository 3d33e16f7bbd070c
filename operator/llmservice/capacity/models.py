"""The model catalogue: well-known models by repository or package, read from `models.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, NamedTuple

from llmservice.api.model import Dtype, ModelSource
from llmservice.capacity.architecture import Experts, LatentAttention, Model
from llmservice.capacity.quantization import Quantization, split_name

__all__ = ["Catalogue", "catalogue", "find_model", "find_repository", "source_name"]


class Catalogue(NamedTuple):
    """Models by repository (`owner/name`), by bare name, and by Python package; all keys in lower case.

    `as_written` has the repositories as their owners write them.
    """

    repositories: Mapping[str, Model]
    names: Mapping[str, Model]
    packages: Mapping[str, Model]
    as_written: Mapping[str, Model]


@cache
def catalogue() -> Catalogue:
    """The shipped catalogue."""
    raw = tomllib.loads(files(__package__).joinpath("models.toml").read_text(encoding="utf-8"))
    repositories: dict[str, Model] = {}
    names: dict[str, Model] = {}
    packages: dict[str, Model] = {}
    written: dict[str, Model] = {}
    for name, table in raw.items():
        model = _model(name, table)
        for repo in table["repos"]:
            written[repo] = repositories[repo.lower()] = model
            names.setdefault(_bare(repo.lower()), model)
        packages |= dict.fromkeys(table.get("packages", ()), model)
    return Catalogue(*map(MappingProxyType, (repositories, names, packages, written)))


def find_model(source: ModelSource) -> Model | None:
    """The model that `source` brings; None where only the files could say.

    A quantised copy is known by its name, whoever published it: `TheBloke/Llama-2-13B-chat-AWQ` has the shape of
    `meta-llama/Llama-2-13b-chat-hf`.
    """
    known = catalogue()
    if source.hugging_face:
        return _of_repository(source.hugging_face.repo.lower(), known)
    if source.package:
        return known.packages.get(source.package.name.lower().replace("_", "-").replace(".", "-"))
    return None


def find_repository(repo: str) -> Model | None:
    """The model of a hub's repository, quantised copies of known ones included; None where it is not known."""
    return _of_repository(repo.lower(), catalogue())


def source_name(source: ModelSource) -> str:
    """How a message calls the model of `source`."""
    if source.hugging_face:
        return source.hugging_face.repo
    if source.package:
        return f"Package {source.package.name}"
    kind = next((kind for kind, value in source.model_dump(by_alias=True).items() if value is not None), "source")
    return f"The model of source {kind}"


def _of_repository(repo: str, known: Catalogue) -> Model | None:
    if repo in known.repositories:
        return known.repositories[repo]
    stem, quantization = split_name(repo)
    model = known.names.get(_bare(stem))
    if model is None or quantization is Quantization.NONE:
        return None
    return replace(model, name=f"{model.name} ({quantization.words})", quantization=quantization)


def _bare(repo: str) -> str:
    return repo.rpartition("/")[2].removesuffix("-hf").removeprefix("meta-")


def _model(name: str, table: Mapping[str, Any]) -> Model:
    shape, moe, mla = table["shape"], table.get("moe"), table.get("mla")
    return Model(
        name=name,
        layers=shape["layers"],
        hidden=shape["hidden"],
        intermediate=shape["intermediate"],
        heads=shape["heads"],
        kv_heads=shape["kvHeads"],
        head_size=shape["headSize"],
        vocab=shape["vocab"],
        max_length=table["maxLength"],
        tied=table.get("tied", False),
        qkv_bias=table.get("qkvBias", False),
        dtype=Dtype(table.get("dtype", "bfloat16")),
        quantization=Quantization(table.get("quantization", "none")),
        sliding_window=table.get("slidingWindow", 0),
        sliding_layers=table.get("slidingLayers", 0),
        experts=moe
        and Experts(
            moe["experts"], moe["perToken"], moe["intermediate"], moe.get("shared", 0), moe.get("denseLayers", 0)
        ),
        latent=mla and LatentAttention(mla["latent"], mla["rope"], mla["nope"], mla["value"], mla["queryRank"]),
        stated_parameters=table["parameters"],
    )
