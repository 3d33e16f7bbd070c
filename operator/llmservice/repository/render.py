"""Service + plan + knobs + Triton version → the text files of the Triton repository."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final, Self

from llmservice.api.engine import NATIVE_BACKENDS, Backend, Driver
from llmservice.api.knobs import Knobs
from llmservice.api.plan import CapacityPlan
from llmservice.api.service import LLMService
from llmservice.repository.engine_config import engine_config, worker_files
from llmservice.repository.errors import RenderError
from llmservice.repository.features import OLDEST_GATE_VERSION, TritonFeatures
from llmservice.repository.gate_config import gate_config
from llmservice.repository.layout import CONFIG_FILE, POD_PATHS, Paths
from llmservice.repository.proto import from_text, to_load_json, to_text
from llmservice.repository.stock_llmapi import llmapi_files
from llmservice.repository.stock_pipeline import pipeline_files
from llmservice.repository.stock_vllm import stock_vllm_files
from llmservice.repository.topology import RepositoryModel, Role, topology

__all__ = ["MANIFEST_KEY", "Repository", "RepositoryModel", "Role", "render"]

MANIFEST_KEY: Final = "repository.json"
_MANIFEST_FORMAT: Final = 1


@dataclass(frozen=True)
class Repository:
    """A rendered repository: `files` maps the path inside the repository to its text."""

    files: Mapping[str, str]
    models: tuple[RepositoryModel, ...]

    def model(self, role: Role) -> RepositoryModel:
        """The model with this role. Raises KeyError where there is none."""
        for model in self.models:
            if model.role is role:
                return model
        raise KeyError(role)

    @property
    def has_gate(self) -> bool:
        """Whether our gate is in it: only then can delay, slots and instances change while it serves."""
        return any(model.role is Role.GATE for model in self.models)

    def config(self, role: Role) -> Any:
        """The `ModelConfig` message of the model with this role."""
        return from_text(self.files[f"{self.model(role).name}/{CONFIG_FILE}"])

    def load_json(self, role: Role) -> str:
        """The configuration of the model with this role, as Triton's load API wants it."""
        return to_load_json(self.config(role))

    def to_config_map_data(self) -> dict[str, str]:
        """`data` of a ConfigMap. Its keys may hold no `/`, so a manifest says which key is which path."""
        keys = {path: path.replace("/", "_.") for path in sorted(self.files)}
        manifest = {
            "format": _MANIFEST_FORMAT,
            "models": [_model_entry(model) for model in self.models],
            "files": {key: path for path, key in keys.items()},
        }
        texts = {key: self.files[path] for path, key in keys.items()}
        return {MANIFEST_KEY: json.dumps(manifest, indent=2) + "\n", **texts}

    @classmethod
    def from_config_map_data(cls, data: Mapping[str, str]) -> Self:
        """The repository that `to_config_map_data` wrote. Raises ValueError that names what is missing or strange."""
        if MANIFEST_KEY not in data:
            raise ValueError(f"{MANIFEST_KEY} is missing: this is not a rendered repository")
        try:
            manifest = json.loads(data[MANIFEST_KEY])
        except ValueError as error:
            raise ValueError(f"{MANIFEST_KEY} is not JSON: {error}") from error
        try:
            return cls._of_manifest(manifest, data)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{MANIFEST_KEY} is not what this operator writes: {error!r}") from error

    @classmethod
    def _of_manifest(cls, manifest: Any, data: Mapping[str, str]) -> Self:
        if manifest.get("format") != _MANIFEST_FORMAT:
            raise ValueError(
                f"{MANIFEST_KEY}: format {manifest.get('format')!r} is not {_MANIFEST_FORMAT}: "
                "the repository was rendered by another version of the operator; use the same image for both"
            )
        absent = sorted(key for key in manifest["files"] if key not in data)
        if absent:
            raise ValueError(f"{MANIFEST_KEY} names files that are missing: {', '.join(absent)}")
        models = tuple(
            RepositoryModel(m["name"], Role(m["role"]), m["code"], m.get("imageCode", "")) for m in manifest["models"]
        )
        paths = [*manifest["files"].values(), *(part for model in models for part in (model.name, model.code))]
        outside = [path for path in paths if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts]
        if outside:
            raise ValueError(f"{MANIFEST_KEY} names places outside of the repository: {', '.join(outside)}")
        return cls(files={path: data[key] for key, path in manifest["files"].items()}, models=models)


def render(
    service: LLMService,
    plan: CapacityPlan,
    knobs: Knobs,
    features: TritonFeatures,
    paths: Paths = POD_PATHS,
) -> Repository:
    """The repository of `service`: the models of its topology, each with its configuration.

    Pure: equal arguments give equal text. Raises RenderError for what cannot be rendered, with the field's path.
    """
    models = topology(service)
    if service.spec.engine.driver is Driver.NATIVE:
        return Repository(_native_files(service, plan, knobs, features, paths), models)
    if service.spec.engine.backend is Backend.VLLM:
        return Repository(stock_vllm_files(service, plan, features.asked, paths), models)
    if service.spec.engine.backend is Backend.TENSORRTLLM:
        chained = any(model.role is Role.CHAIN for model in models)
        files = (pipeline_files if chained else llmapi_files)(service, plan, features.asked, paths)
        return Repository(files, models)
    raise RenderError(
        "spec.engine.driver", f"there is no stock driver for {service.spec.engine.backend}: write driver: Native"
    )


def _native_files(
    service: LLMService, plan: CapacityPlan, knobs: Knobs, features: TritonFeatures, paths: Paths
) -> dict[str, str]:
    engine = service.spec.engine
    if engine.backend not in NATIVE_BACKENDS:
        known = " or ".join(sorted(NATIVE_BACKENDS))
        raise RenderError(
            "spec.engine.driver", f"there is no engine of ours for {engine.backend}: write driver: Nvidia, or {known}"
        )
    if not features.gate:
        raise RenderError(
            "spec.engine.image",
            f"Triton {features.version} is older than what the gate was measured on: use an image with "
            f"{OLDEST_GATE_VERSION} or later, or driver: Nvidia",
        )
    engine_part = engine_config(service, plan, knobs, paths, features.asked)
    configs = (gate_config(service, plan, knobs, paths), engine_part)
    return {f"{config.name}/{CONFIG_FILE}": to_text(config) for config in configs} | worker_files(engine_part)


def _model_entry(model: RepositoryModel) -> dict[str, str]:
    entry = {"name": model.name, "role": model.role.value, "code": model.code}
    return entry | ({"imageCode": model.image_code} if model.image_code else {})
