"""The `LLMService` object: one model, served by replicas."""

from __future__ import annotations

from typing import Annotated, Any, Final, Self

from pydantic import Field

from llmservice.api.batching import Batching
from llmservice.api.defaults import without_nulls
from llmservice.api.duration import cel_duration, cel_if_duration
from llmservice.api.engine import EngineSpec
from llmservice.api.model import ModelSpec
from llmservice.api.operations import (
    Drain,
    KvCache,
    Objectives,
    Rollout,
    Scaling,
    ServiceSpec,
    Tuning,
)
from llmservice.api.placement import Placement
from llmservice.api.schema import ApiModel, Rule
from llmservice.api.template import PodTemplate

GROUP: Final = "triton-llm.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "LLMService"
PLURAL: Final = "llmservices"
SHORT_NAME: Final = "llm"
MAX_NAME_LENGTH: Final = 45
"""Characters of a service's name: names and labels of children, 63 at most, carry a revision and a suffix."""
MAX_GROUP_NAME_LENGTH: Final = 39
"""Where replicas run on several nodes: pods have their StatefulSet's name, the service's with revision and a group's
number (at most three digits), and a hash of ten in the label `controller-revision-hash`."""
_SERVED_NAMES: Final = (
    "(has(self.spec.model.servedNames) && size(self.spec.model.servedNames) > 0 "
    "? self.spec.model.servedNames : [self.metadata.name])"
)


class LLMServiceSpec(ApiModel):
    """What a user asks for."""

    model: ModelSpec
    engine: EngineSpec = EngineSpec()
    batching: Batching = Batching()
    kv_cache: KvCache = KvCache()
    placement: Placement = Placement()
    replicas: Annotated[
        int | None,
        Field(
            ge=0,
            le=1000,
            description="Present: owned from outside (kubectl scale, HPA, KEDA).",
        ),
    ] = None
    scaling: Scaling = Scaling()
    objectives: Objectives = Objectives()
    tuning: Tuning = Tuning()
    rollout: Rollout = Rollout()
    drain: Drain = Drain()
    service: ServiceSpec = ServiceSpec()
    template: PodTemplate = PodTemplate()

    rules = (
        Rule(
            code="own-mig-parallelism",
            expression="!(self.placement.pool.startsWith('mig-') || self.placement.pool.contains('-mig-')) "
            "|| (self.engine.parallelism.tensor == 1 && self.engine.parallelism.pipeline == 1)",
            message='"a MIG slice shares nothing with its neighbours, so parallelism cannot span pool %s: write '
            'tensor: 1 and pipeline: 1, or a pool of whole accelerators".format([self.placement.pool])',
            field_path=".engine.parallelism",
        ),
        Rule(
            code="own-nodes-cpu",
            expression="self.engine.parallelism.nodes == 1 || self.placement.pool != 'cpu'",
            message='"a replica on processors runs on one node: write engine.parallelism.nodes: 1, or a pool of '
            'accelerators"',
            field_path=".engine.parallelism.nodes",
        ),
        Rule(
            code="own-nvidia-mode",
            expression="self.engine.driver != 'Nvidia' || self.batching.mode == 'Continuous'",
            message='"the stock driver batches by itself: write batching.mode: Continuous instead of %s, or driver: '
            'Native".format([self.batching.mode])',
            field_path=".batching.mode",
        ),
        Rule(
            code="own-nvidia-delay",
            expression="self.engine.driver != 'Nvidia' || !has(self.batching.maxQueueDelay)",
            message='"the stock driver takes requests at once, so a queue delay means nothing: remove maxQueueDelay, '
            'or write driver: Native"',
            field_path=".batching",
        ),
        Rule(
            code="own-nvidia-priorities",
            expression="self.engine.driver != 'Nvidia' || self.batching.priorities.levels == 0",
            message='"the stock driver takes requests at once, so priorities mean nothing: remove them, or write '
            'driver: Native"',
            field_path=".batching.priorities",
        ),
        Rule(
            code="own-nvidia-queue",
            expression="self.engine.driver != 'Nvidia' || !has(self.batching.queue) "
            "|| !(has(self.batching.queue.maxSize) || has(self.batching.queue.timeout) "
            "|| has(self.batching.queue.levels))",
            message='"the stock driver takes requests at once, so queue limits mean nothing: remove them, or write '
            'driver: Native"',
            field_path=".batching",
        ),
        Rule(
            code="own-nvidia-instances",
            expression="self.engine.driver != 'Nvidia' || self.tuning.bounds.engineInstances.max == 1",
            message='"a second instance of a stock backend loads the weights again onto the same accelerator: write '
            'tuning.bounds.engineInstances: {min: 1, max: 1}, and let replicas grow"',
            field_path=".tuning.bounds.engineInstances",
        ),
        Rule(
            code="own-nvidia-order",
            expression="self.engine.driver != 'Nvidia' || !self.batching.preserveOrdering",
            message='"the stock driver answers as it finishes, so an order of answers means nothing: remove '
            'preserveOrdering, or write driver: Native"',
            field_path=".batching.preserveOrdering",
        ),
        Rule(
            code="own-delay-in-bounds",
            expression="self.tuning.mode == 'Off' || !has(self.batching.maxQueueDelay) || "
            + cel_if_duration(
                "self.batching.maxQueueDelay",
                f"(duration(self.batching.maxQueueDelay) >= {cel_duration('self.tuning.bounds.maxQueueDelay.min')} "
                f"&& duration(self.batching.maxQueueDelay) <= {cel_duration('self.tuning.bounds.maxQueueDelay.max')})",
            ),
            message='"maxQueueDelay %s is outside of tuning.bounds.maxQueueDelay, %s to %s: change one of them, or '
            "write tuning.mode: 'Off'\".format([self.batching.maxQueueDelay, self.tuning.bounds.maxQueueDelay.min, "
            "self.tuning.bounds.maxQueueDelay.max])",
            field_path=".batching.maxQueueDelay",
        ),
        Rule(
            code="own-kv-torch",
            expression="self.kvCache.dtype in ['Auto', 'fp8_e4m3'] || self.engine.backend != 'torch'",
            message='"the torch engine has no %s cache: write kvCache.dtype: Auto or fp8_e4m3"'
            ".format([self.kvCache.dtype])",
            field_path=".kvCache.dtype",
        ),
        Rule(
            code="own-kv-int8",
            expression="self.kvCache.dtype != 'int8' || self.engine.backend != 'vllm'",
            message='"vllm has no int8 cache: write kvCache.dtype: Auto, fp8_e4m3 or fp8_e5m2"',
            field_path=".kvCache.dtype",
        ),
    )


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

    rules = (
        Rule(
            code="V1-name",
            expression="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            message='"the name %s cannot also name a Service and a Triton model: use lower-case letters, digits and -, '
            'with a letter first".format([self.metadata.name])',
            field_path=".metadata.name",
        ),
        Rule(
            code="own-name-length",
            expression=f"size(self.metadata.name) <= {MAX_NAME_LENGTH}",
            message='"the name %s is too long for the names of its Deployments and pods: use at most '
            f'{MAX_NAME_LENGTH} characters"'
            ".format([self.metadata.name])",
            field_path=".metadata.name",
        ),
        Rule(
            code="own-nodes-name",
            expression="self.spec.engine.parallelism.nodes == 1 "
            f"|| size(self.metadata.name) <= {MAX_GROUP_NAME_LENGTH}",
            message='"the name %s is too long for the StatefulSets of replicas over several nodes: use at most '
            f'{MAX_GROUP_NAME_LENGTH} characters"'
            ".format([self.metadata.name])",
            field_path=".metadata.name",
        ),
        Rule(
            code="own-adapter-served-name",
            expression="self.spec.engine.driver != 'Native' || !self.spec.service.openAI.enabled "
            "|| !has(self.spec.engine.vllm) || !has(self.spec.engine.vllm.adapters) "
            f"|| self.spec.engine.vllm.adapters.all(a, !(a.name in {_SERVED_NAMES}))",
            message='"to the OpenAI API an adapter is a model too, and %s names the model already: rename the adapter, '
            'or the model by servedNames"'
            f".format([self.spec.engine.vllm.adapters.filter(a, a.name in {_SERVED_NAMES})[0].name])",
            field_path=".spec.engine.vllm.adapters",
        ),
    )

    @classmethod
    def parse(cls, manifest: dict[str, Any]) -> Self:
        """The service in `manifest`. Raises pydantic.ValidationError with the path of each bad field."""
        return cls.model_validate(manifest | {part: without_nulls(manifest.get(part)) for part in ("metadata", "spec")})

    @property
    def key(self) -> tuple[str, str]:
        """(namespace, name)."""
        return self.metadata.namespace, self.metadata.name
