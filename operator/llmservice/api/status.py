"""`status`: what the operator last saw and did. The reporter is the only writer; columns and tools read it.

Strings and lists are clipped, never refused: a long error from Triton must not make a status write fail.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from llmservice.api.bounds import Message, Sentence, Time, Word, clip_items, clip_text
from llmservice.api.duration import MeasuredDuration
from llmservice.api.reasons import ConditionType, Reason
from llmservice.api.schema import ApiModel


class StatusModel(ApiModel):
    """A part of the status. Fields that a newer operator wrote are kept out of the way, not refused."""

    model_config = ApiModel.model_config | {"extra": "ignore"}


class Phase(StrEnum):
    """What a service is doing, in one word."""

    PENDING = "Pending"
    STARTING = "Starting"
    SERVING = "Serving"
    UPDATING = "Updating"
    SCALING = "Scaling"
    IDLE = "Idle"
    FAILED = "Failed"
    DELETING = "Deleting"


class ConditionStatus(StrEnum):
    """The three values of a Kubernetes condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(StatusModel):
    """One condition, in Kubernetes' own form."""

    type: ConditionType
    status: ConditionStatus = ConditionStatus.UNKNOWN
    reason: Reason = Reason.NOT_EVALUATED
    message: Annotated[Message, Field(description="What is the matter and what to do next.")] = ""
    observed_generation: Annotated[int, Field(ge=0, description="The generation this was judged for.")] = 0
    last_transition_time: Time


class RevisionRef(StatusModel):
    """One rendered form of the pods."""

    name: Word
    image: Annotated[str, clip_text(512), Field(max_length=512, description="The Triton image it is pinned to.")] = ""


class RevisionStatus(RevisionRef):
    """A revision that still has pods or is wanted."""

    replicas: Annotated[int, Field(ge=0)] = 0
    ready_replicas: Annotated[int, Field(ge=0)] = 0
    current: Annotated[bool, Field(description="Whether this is the revision the spec asks for.")] = False


class KnobsStatus(StatusModel):
    """The knobs in force, and the value of `spec.batching.maxQueueDelay` they were seeded from."""

    max_queue_delay: MeasuredDuration | None = None
    engine_instances: Annotated[int | None, Field(ge=0)] = None
    slots: Annotated[int | None, Field(ge=0)] = None
    replicas: Annotated[int | None, Field(ge=0)] = None
    seed: Annotated[MeasuredDuration | None, Field(description="The delay in the spec at seeding.")] = None


class SignalsStatus(StatusModel):
    """What was measured last. A missing figure is absent, never zero."""

    queue_depth: Annotated[float | None, Field(description="Requests that wait, over all replicas.")] = None
    time_to_first_token_p99: Annotated[
        MeasuredDuration | None, Field(alias="timeToFirstTokenP99", description="99th percentile over the last window.")
    ] = None
    tokens_per_second: Annotated[float | None, Field(description="Tokens given, over all replicas.")] = None
    source: Annotated[Word | None, Field(description="Prometheus or Pods.")] = None
    observed_at: Time | None = None


class StartupPhase(StatusModel):
    """One step from `kubectl apply` to the first answer."""

    name: Annotated[Word, Field(description="Schedule, PullImage, FetchWeights, LoadModel, WarmUp or BecomeReady.")]
    seconds: Annotated[float | None, Field(ge=0, description="How long it took; absent while it lasts.")] = None


class Startup(StatusModel):
    """The start of the newest replica, by phase."""

    phases: Annotated[list[StartupPhase], clip_items(16), Field(max_length=16)] = []


class WeightsStatus(StatusModel):
    """How far the newest replica's weights are, and what their files say of the model."""

    source: Annotated[Word, Field(description="Which spec.model.source this is of.")] = ""
    phase: Annotated[Word | None, Field(description="Fetching, Waiting (for another pod), Ready or Failed.")] = None
    percent: Annotated[int | None, Field(ge=0, le=100, description="In steps of 5.")] = None
    total_bytes: Annotated[int | None, Field(ge=0)] = None
    bytes_per_second: Annotated[int | None, Field(ge=0, description="Over the last seconds, two digits.")] = None
    seconds_left: Annotated[int | None, Field(ge=0)] = None
    progress: Annotated[Word | None, Field(description="These figures in words, while the weights come.")] = None
    revision: Annotated[Word | None, Field(description="What the source's revision was at the last fetch.")] = None
    transferred_bytes: Annotated[
        int | None, Field(ge=0, description="Of the last start; 0 where the cache had everything.")
    ] = None
    parameters: Annotated[int | None, Field(ge=0, description="Numbers in the weights' files.")] = None
    config: Annotated[
        str | None, Field(max_length=4096, description="What the model's config.json says of its shape, as JSON.")
    ] = None


class CapacityStatus(StatusModel):
    """What the capacity plan says of one replica."""

    fits: Annotated[bool | None, Field(description="Absent where the model is not known well enough.")] = None
    accelerator: Word | None = None
    accelerators_per_replica: Annotated[int | None, Field(ge=0)] = None
    nodes: Annotated[int | None, Field(ge=0, description="Nodes of one replica; absent for one.")] = None
    max_sequences: Annotated[int | None, Field(ge=0)] = None
    max_length: Annotated[int | None, Field(ge=0)] = None
    weights_bytes: Annotated[int | None, Field(ge=0)] = None
    adapter_bytes: Annotated[
        int | None, Field(ge=0, description="Room for LoRA adapters, on the fullest accelerator; absent for none.")
    ] = None
    draft_bytes: Annotated[
        int | None, Field(ge=0, description="Weights of the proposing model, on the fullest accelerator.")
    ] = None
    kv_tokens: Annotated[int | None, Field(ge=0, description="Tokens the cache of keys and values holds.")] = None
    kv_bytes_per_token: Annotated[int | None, Field(ge=0, description="Of one token, over all accelerators.")] = None
    planned_length: Annotated[
        int | None, Field(ge=0, description="Tokens of a sequence that the plan counts with.")
    ] = None
    fitting_sequences: Annotated[
        int | None, Field(ge=0, description="Sequences of plannedLength that the cache holds at once.")
    ] = None
    instances: Annotated[int | None, Field(ge=0, description="Engine instances that fit beside each other.")] = None
    reload_memory_percent: Annotated[
        int | None,
        Field(ge=0, le=100, description="Up to this kvCache.memoryPercent weights can be loaded beside a live engine."),
    ] = None
    smallest_pool: Annotated[Word | None, Field(description="The smallest pool on which it fits.")] = None
    gains: Annotated[list[Sentence], clip_items(6), Field(max_length=6, description="What each change would buy.")] = []
    remedies: Annotated[
        list[Sentence], clip_items(3), Field(max_length=3, description="What to write instead, cheapest first.")
    ] = []
    message: Sentence | None = None


class TuningDecision(StatusModel):
    """One decision of the tuner that was worth keeping."""

    time: Time
    outcome: Word = ""
    reason: Sentence = ""
    changes: Annotated[
        list[Word], clip_items(8), Field(max_length=8, description="Knobs it moved, as old -> new.")
    ] = []
    inputs: Annotated[
        list[Word], clip_items(24), Field(max_length=24, description="The figures it rests on, as name=value.")
    ] = []


class CanaryStatus(StatusModel):
    """A change that one replica tries before the others."""

    replica: Word | None = None
    knobs: Annotated[KnobsStatus | None, Field(description="That replica's; `status.knobs` are the others'.")] = None
    since: Time | None = None


class TuningStatus(StatusModel):
    """What the tuner makes of the signals."""

    mode: Word | None = None
    outcome: Annotated[Word | None, Field(description="Act, Hold, Distrust or Observe.")] = None
    reason: Annotated[Sentence | None, Field(description="Why, when this outcome was first reached.")] = None
    proposed: Annotated[KnobsStatus | None, Field(description="The best knobs the model knows.")] = None
    headroom: Annotated[float | None, Field(description="Unused share of what the objectives allow, in tenths.")] = None
    limiting_resource: Annotated[Word | None, Field(description="What would have to grow to take more.")] = None
    infeasible: Annotated[
        list[Sentence], clip_items(9), Field(max_length=9, description="Objectives that no setting reaches.")
    ] = []
    next_action_time: Annotated[Time | None, Field(description="Before this moment no knob moves.")] = None
    canary: Annotated[CanaryStatus | None, Field(description="What one replica tries; absent: none does.")] = None
    decisions: Annotated[
        list[TuningDecision], clip_items(10), Field(max_length=10, description="The last ten, newest first.")
    ] = []


class FailureDomain(StatusModel):
    """What one failure domain of the pool has of the accelerators that are missing."""

    name: Annotated[Word, Field(description="Value of the pool's topology label; empty without one.")] = ""
    nodes: Annotated[int, Field(ge=0, description="Nodes that a replica may use.")] = 0
    offered: Annotated[int, Field(ge=0, description="Accelerators of these nodes.")] = 0
    free: Annotated[int, Field(ge=0, description="Those that nobody has.")] = 0
    largest: Annotated[int, Field(ge=0, description="The most that one node has free.")] = 0


class Shortage(StatusModel):
    """Accelerators that replicas wait for, and where some are free."""

    resource: Annotated[Word, Field(description="Extended resource or DeviceClass.")]
    replicas: Annotated[int, Field(ge=1, description="Replicas that wait.")]
    missing: Annotated[int, Field(ge=1, description="What they need together; each needs its part on one node.")]
    domains: Annotated[
        list[FailureDomain], clip_items(32), Field(max_length=32, description="The pool, by failure domain.")
    ] = []


class LLMServiceStatus(StatusModel):
    """What the operator last saw and did."""

    observed_generation: Annotated[int | None, Field(ge=0, description="The generation this status is of.")] = None
    phase: Phase | None = None
    summary: Annotated[Word | None, Field(description="The phase, or the reason that blocks it.")] = None
    conditions: Annotated[
        list[Condition],
        clip_items(16),
        Field(
            max_length=16,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = []
    replicas: Annotated[int | None, Field(ge=0, description="Replicas that exist; what /scale reports.")] = None
    ready_replicas: Annotated[int | None, Field(ge=0)] = None
    replicas_summary: Annotated[Word | None, Field(description="Ready and wanted replicas, as 2/3.")] = None
    selector: Annotated[
        str | None, Field(max_length=1024, description="Label selector of the replicas, for /scale.")
    ] = None
    model: Annotated[Sentence | None, Field(description="The model, in short.")] = None
    pool: Word | None = None
    revision: Annotated[RevisionRef | None, Field(description="The revision the spec asks for.")] = None
    revisions: Annotated[list[RevisionStatus], clip_items(16), Field(max_length=16)] = []
    knobs: KnobsStatus | None = None
    signals: SignalsStatus | None = None
    tuning: TuningStatus | None = None
    startup: Startup | None = None
    weights: WeightsStatus | None = None
    capacity: CapacityStatus | None = None
    shortage: Annotated[Shortage | None, Field(description="While replicas wait for accelerators.")] = None
    warnings: Annotated[
        list[Sentence], clip_items(32), Field(max_length=32, description="What was accepted but is likely wrong.")
    ] = []

    def manifest(self) -> dict[str, Any]:
        """The status as JSON for the API server: camelCase, absent fields left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
