"""The `LLMService` object: one model, served by replicas."""

from __future__ import annotations

from typing import Annotated, Any, Final, Self

from pydantic import Field

from llmservice.api.batching import Batching
from llmservice.api.engine import EngineSpec
from llmservice.api.model import ModelSpec
from llmservice.api.operations import (
    Drain,
    KvCache,
    Objectives,
    Placement,
    Rollout,
    Scaling,
    ServiceSpec,
    Tuning,
)
from llmservice.api.schema import ApiModel
from llmservice.api.template import PodTemplate

GROUP: Final = "triton-llm.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "LLMService"
PLURAL: Final = "llmservices"
SHORT_NAME: Final = "llm"


class LLMServiceSpec(ApiModel):
    """What a user asks for."""

    model: ModelSpec
    engine: EngineSpec = EngineSpec()
    batching: Batching = Batching()
    kv_cache: KvCache = KvCache()
    placement: Placement = Placement()
    replicas: Annotated[
        int | None, Field(ge=0, le=1000, description="Present: owned from outside (kubectl scale, HPA, KEDA).")
    ] = None
    scaling: Scaling = Scaling()
    objectives: Objectives = Objectives()
    tuning: Tuning = Tuning()
    rollout: Rollout = Rollout()
    drain: Drain = Drain()
    service: ServiceSpec = ServiceSpec()
    template: PodTemplate = PodTemplate()


class Metadata(ApiModel):
    """The part of an object's metadata that decisions look at."""

    model_config = ApiModel.model_config | {"extra": "ignore"}

    name: str
    namespace: str = "default"
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class LLMService(ApiModel):
    """One service as stored: what was asked (`spec`) and, raw, what was last reported (`status`)."""

    model_config = ApiModel.model_config | {"extra": "ignore"}

    metadata: Metadata
    spec: LLMServiceSpec
    status: dict[str, Any] = {}

    @classmethod
    def parse(cls, manifest: dict[str, Any]) -> Self:
        """The service in `manifest`. Raises pydantic.ValidationError with the path of each bad field."""
        return cls.model_validate(manifest)

    @property
    def key(self) -> tuple[str, str]:
        """(namespace, name)."""
        return self.metadata.namespace, self.metadata.name
