"""Service + plan + knobs + Triton version → the text files of the Triton repository."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any, Final, Self

from llmservice.api.knobs import Knobs
from llmservice.api.plan import CapacityPlan
from llmservice.api.service import LLMService
from llmservice.repository.engine_config import engine_config
from llmservice.repository.errors import RenderError
from llmservice.repository.features import TritonFeatures
from llmservice.repository.gate_config import gate_config
from llmservice.repository.layout import CONFIG_FILE, POD_PATHS, Paths, engine_name, gate_name
from llmservice.repository.proto import from_text, to_load_json, to_text

MANIFEST_KEY: Final = "repository.json"
_MANIFEST_FORMAT: Final = 1


class Role(StrEnum):
    """What a Triton model of a service does."""

    GATE = "Gate"
    ENGINE = "Engine"


@dataclass(frozen=True)
class RepositoryModel:
    """One Triton model. `code` names the folder of `model_repository/` whose files it runs: `gate`, `torch`, `vllm`."""

    name: str
    role: Role
    code: str


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
            "models": [{"name": m.name, "role": m.role.value, "code": m.code} for m in self.models],
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
        models = tuple(RepositoryModel(m["name"], Role(m["role"]), m["code"]) for m in manifest["models"])
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
    """The repository of `service`: the gate (`<service>`) and the engine (`<service>-engine`).

    Pure: equal arguments give equal text. Raises RenderError for what cannot be rendered, with the field's path.
    """
    if not (features.decoupled_cancellation and features.custom_metrics):
        raise RenderError(
            "spec.engine.image",
            f"Triton {features.version} lacks what the gate needs: use an image with 2.51.0 or later",
        )
    name = service.metadata.name
    engine = engine_config(service, plan, knobs, paths)
    gate = gate_config(service, plan, knobs, paths)
    return Repository(
        files={
            f"{gate_name(name)}/{CONFIG_FILE}": to_text(gate),
            f"{engine_name(name)}/{CONFIG_FILE}": to_text(engine),
        },
        models=(
            RepositoryModel(gate_name(name), Role.GATE, "gate"),
            RepositoryModel(engine_name(name), Role.ENGINE, service.spec.engine.backend.value),
        ),
    )
