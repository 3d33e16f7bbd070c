"""The parts of a spec that say how a service is placed, scaled, judged and changed."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from llmservice.api.duration import Duration
from llmservice.api.schema import ApiModel


class KvCacheDtype(StrEnum):
    """The type of cached keys and values; the lower-case names are vLLM's and torch's own."""

    AUTO = "Auto"
    FP8_E4M3 = "fp8_e4m3"
    FP8_E5M2 = "fp8_e5m2"
    INT8 = "int8"


class KvCache(ApiModel):
    """The cache of keys and values."""

    dtype: KvCacheDtype = KvCacheDtype.AUTO
    memory_percent: Annotated[
        int, Field(ge=1, le=100, description="Accelerator memory the engine may take, in percent.")
    ] = 90


class Placement(ApiModel):
    """Where replicas run."""

    pool: Annotated[
        str,
        Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", description="A pool's name."),
    ] = "cpu"


class Scaling(ApiModel):
    """Bounds within which the operator chooses the replica count."""

    min_replicas: Annotated[int, Field(ge=0, le=1000)] = 1
    max_replicas: Annotated[int, Field(ge=1, le=1000)] = 1


class Percentiles(ApiModel):
    """Upper bounds of a latency by percentile."""

    p50: Duration | None = None
    p90: Duration | None = None
    p99: Duration | None = None


class Objectives(ApiModel):
    """What the service promises, judged over `window`."""

    window: Duration = timedelta(minutes=5)
    time_to_first_token: Percentiles | None = None
    per_output_token: Percentiles | None = None
    latency: Percentiles | None = None


class TuningMode(StrEnum):
    """Who moves the knobs."""

    AUTO = "Auto"
    OBSERVE = "Observe"
    OFF = "Off"


class DurationBounds(ApiModel):
    """An inclusive range of durations."""

    min: Duration = timedelta(0)
    max: Duration = timedelta(milliseconds=50)


class CountBounds(ApiModel):
    """An inclusive range of counts."""

    min: Annotated[int, Field(ge=1, le=64)] = 1
    max: Annotated[int, Field(ge=1, le=64)] = 1


class TuningBounds(ApiModel):
    """How far the tuner may move each knob."""

    max_queue_delay: DurationBounds = DurationBounds()
    engine_instances: CountBounds = CountBounds()


class Tuning(ApiModel):
    """The tuner's mode and bounds."""

    mode: TuningMode = TuningMode.AUTO
    bounds: TuningBounds = TuningBounds()


class RolloutStrategy(StrEnum):
    """How a new revision replaces the old one."""

    AUTO = "Auto"
    SURGE = "Surge"
    DRAIN = "Drain"


class CanaryMode(StrEnum):
    """Whether a new revision first serves a part of the traffic."""

    AUTO = "Auto"
    OFF = "Off"


class Rollout(ApiModel):
    """How a new revision replaces the old one."""

    strategy: RolloutStrategy = RolloutStrategy.AUTO
    canary: CanaryMode = CanaryMode.AUTO


class Drain(ApiModel):
    """How long a replica that stops may take to finish what it serves."""

    timeout: Duration = timedelta(seconds=300)


class ServiceType(StrEnum):
    """Kubernetes' own Service types."""

    CLUSTER_IP = "ClusterIP"
    NODE_PORT = "NodePort"
    LOAD_BALANCER = "LoadBalancer"


class ServiceSpec(ApiModel):
    """The Kubernetes Service in front of the replicas."""

    type: ServiceType = ServiceType.CLUSTER_IP
    annotations: Annotated[
        dict[Annotated[str, Field(max_length=317)], Annotated[str, Field(max_length=4096)]], Field(max_length=32)
    ] = {}
