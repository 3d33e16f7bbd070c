"""The parts of a spec that say how a service is placed, scaled, judged and changed."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from llmservice.api.duration import Duration, cel_duration, cel_if_duration
from llmservice.api.openai import OpenAIEndpoint
from llmservice.api.schema import ApiModel, Rule


class KvCacheDtype(StrEnum):
    """The type of cached keys and values; the lower-case names are vLLM's and torch's own."""

    AUTO = "Auto"
    FP8_E4M3 = "fp8_e4m3"
    FP8_E5M2 = "fp8_e5m2"
    INT8 = "int8"


class KvCache(ApiModel):
    """The cache of keys and values."""

    dtype: Annotated[
        KvCacheDtype,
        Field(
            description="Type of cached keys and values. Auto: as the model computes. torch also has fp8_e4m3, half of "
            "bfloat16 in memory; vllm and tensorrtllm have what they and the accelerator can."
        ),
    ] = KvCacheDtype.AUTO
    memory_percent: Annotated[
        int, Field(ge=1, le=100, description="Accelerator memory the engine may take, in percent.")
    ] = 90


class Scaling(ApiModel):
    """Bounds within which the operator chooses the replica count."""

    min_replicas: Annotated[int, Field(ge=0, le=1000, description="Fewest replicas; what runs today.")] = 1
    max_replicas: Annotated[int, Field(ge=1, le=1000, description="Most replicas.")] = 1

    rules = (
        Rule(
            code="own-scaling-range",
            expression="self.minReplicas <= self.maxReplicas",
            message='"minReplicas %d is above maxReplicas %d: raise maxReplicas, or lower minReplicas"'
            ".format([self.minReplicas, self.maxReplicas])",
            field_path=".minReplicas",
        ),
    )


class Percentiles(ApiModel):
    """Upper bounds of a latency by percentile."""

    p50: Annotated[Duration | None, Field(description="Half of the requests are faster.")] = None
    p90: Annotated[Duration | None, Field(description="Nine of ten requests are faster.")] = None
    p99: Annotated[Duration | None, Field(description="99 of 100 requests are faster.")] = None

    rules = tuple(
        Rule(
            code=f"own-percentiles-{low}-{high}",
            expression=f"!has(self.{low}) || !has(self.{high}) || "
            + cel_if_duration(f"self.{high}", f"{cel_duration(f'self.{low}')} <= duration(self.{high})"),
            message=f'"{low} %s is above {high} %s: a higher percentile is never faster; swap or change them"'
            f".format([self.{low}, self.{high}])",
            field_path=f".{low}",
        )
        for low, high in (("p50", "p90"), ("p90", "p99"), ("p50", "p99"))
    )


class Objectives(ApiModel):
    """What the service promises, judged over `window`. The tuner meets them with as little as it can."""

    window: Annotated[Duration, Field(description="Over which the objectives are judged.")] = timedelta(minutes=5)
    time_to_first_token: Annotated[Percentiles | None, Field(description="From the request to its first token.")] = None
    per_output_token: Annotated[Percentiles | None, Field(description="Between two tokens of an answer.")] = None
    latency: Annotated[Percentiles | None, Field(description="From the request to its last token.")] = None

    rules = (
        Rule(
            code="own-objectives-window",
            expression=cel_if_duration(
                "self.window", "(duration(self.window) >= duration('10s') && duration(self.window) <= duration('24h'))"
            ),
            message='"%s is no window to judge by: write 10s to 24h, such as 5m".format([self.window])',
            field_path=".window",
        ),
    )


class TuningMode(StrEnum):
    """Who moves the knobs."""

    AUTO = "Auto"
    OBSERVE = "Observe"
    OFF = "Off"


class DurationBounds(ApiModel):
    """An inclusive range of durations."""

    min: Annotated[Duration, Field(description="Shortest.")] = timedelta(0)
    max: Annotated[Duration, Field(description="Longest.")] = timedelta(milliseconds=50)

    rules = (
        Rule(
            code="own-delay-bounds",
            expression=cel_if_duration("self.max", f"{cel_duration('self.min')} <= duration(self.max)"),
            message='"min %s is above max %s: raise max, or lower min".format([self.min, self.max])',
            field_path=".min",
        ),
    )


class CountBounds(ApiModel):
    """An inclusive range of counts."""

    min: Annotated[int, Field(ge=1, le=64, description="Fewest.")] = 1
    max: Annotated[int, Field(ge=1, le=64, description="Most.")] = 1

    rules = (
        Rule(
            code="own-instances-bounds",
            expression="self.min <= self.max",
            message='"min %d is above max %d: raise max, or lower min".format([self.min, self.max])',
            field_path=".min",
        ),
    )


class TuningBounds(ApiModel):
    """How far the tuner may move each knob."""

    max_queue_delay: Annotated[DurationBounds, Field(description="Bounds of the gate's delay.")] = DurationBounds()
    engine_instances: Annotated[
        CountBounds,
        Field(
            description="Bounds of the count of engine instances in a replica, each with weights and a cache of its "
            "own. The tuner moves it in modes None, Static and Dynamic with backend torch on one accelerator, as far "
            "as memory holds them; anywhere else a replica has the fewest. Most shares the memory that a plan without "
            "batching.maxSequences gives to sequences."
        ),
    ] = CountBounds()


class Tuning(ApiModel):
    """The tuner's mode and bounds."""

    mode: Annotated[
        TuningMode,
        Field(
            description="Auto: the tuner moves the knobs. Observe: it records what it would do. Off: nobody does. "
            "Write 'Off' in quotes, because YAML reads a bare Off as false."
        ),
    ] = TuningMode.AUTO
    bounds: TuningBounds = TuningBounds()


class RolloutStrategy(StrEnum):
    """How a new revision replaces the old one."""

    AUTO = "Auto"
    SURGE = "Surge"
    DRAIN = "Drain"


class CanaryMode(StrEnum):
    """Whether one replica tries a change of knobs before the others."""

    AUTO = "Auto"
    OFF = "Off"


class Rollout(ApiModel):
    """How a new revision replaces the old one."""

    strategy: Annotated[
        RolloutStrategy,
        Field(
            description="Surge: start new replicas first. Drain: free one accelerator first. Auto: Surge where one "
            "is free."
        ),
    ] = RolloutStrategy.AUTO
    canary: Annotated[
        CanaryMode,
        Field(
            description="Auto: from three replicas on, one takes a change of delay, engine instances or slots first, "
            "and the others follow when it is no slower. Off: all take it at once."
        ),
    ] = CanaryMode.AUTO


class Drain(ApiModel):
    """How long a replica that stops may take to finish what it serves."""

    timeout: Annotated[Duration, Field(description="Then what is still being served is cut off.")] = timedelta(
        seconds=300
    )

    rules = (
        Rule(
            code="own-drain-timeout",
            expression=cel_if_duration("self.timeout", "duration(self.timeout) <= duration('24h')"),
            message='"%s is too long to drain, it would hold up every rollout: write at most 24h, such as 300s"'
            ".format([self.timeout])",
            field_path=".timeout",
        ),
    )


class ServiceType(StrEnum):
    """Kubernetes' own Service types."""

    CLUSTER_IP = "ClusterIP"
    NODE_PORT = "NodePort"
    LOAD_BALANCER = "LoadBalancer"


class ServiceSpec(ApiModel):
    """The Kubernetes Service in front of the replicas."""

    type: Annotated[ServiceType, Field(description="Kubernetes' own Service type.")] = ServiceType.CLUSTER_IP
    annotations: Annotated[
        dict[Annotated[str, Field(max_length=317)], Annotated[str, Field(max_length=4096)]],
        Field(max_length=32, description="Annotations of the Service, for load balancers."),
    ] = {}
    openai: Annotated[OpenAIEndpoint, Field(alias="openAI")] = OpenAIEndpoint()
