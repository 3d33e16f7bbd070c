"""Fleet defaults: what the platform team sets once for every service (the chart's values, mounted as a file)."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from llmservice.api.duration import Duration
from llmservice.api.engine import Backend
from llmservice.api.operations import Objectives
from llmservice.api.quantity import parse_quantity
from llmservice.api.schema import ApiModel
from llmservice.api.template import PodTemplate


class EngineImage(ApiModel):
    """A Triton image and the Triton version in it, which decides what may be rendered."""

    image: str
    triton_version: str = "2.51.0"


class SharingStrategy(StrEnum):
    """How NVIDIA's device plugin hands one GPU to several pods."""

    TIME_SLICING = "TimeSlicing"
    MPS = "MPS"


class Sharing(ApiModel):
    """GPUs that several pods share; each is offered `replicas` times."""

    strategy: SharingStrategy
    replicas: Annotated[int, Field(ge=2, le=128, description="How often one GPU is offered.")]


class Pool(ApiModel):
    """A named class of nodes with one kind of accelerator."""

    accelerator: Annotated[
        str, Field(description="Its name in the catalogue, such as a100-80gb or a100-80gb-mig-3g.40gb.")
    ] = "cpu"
    resource: Annotated[
        str, Field(description="Extended resource that one accelerator is; empty: the catalogue's, none for CPU.")
    ] = ""
    node_selector: dict[str, str] = {}
    template: PodTemplate = PodTemplate()
    runtime_class_name: str | None = None
    memory: Annotated[
        str | None,
        Field(description="Memory of one accelerator, as a quantity such as 80Gi; omitted: the catalogue's."),
    ] = None
    topology_keys: Annotated[
        list[str], Field(description="Node labels whose values are failure domains: replicas spread over them.")
    ] = ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
    quota: Annotated[
        dict[str, int],
        Field(description="Accelerators by namespace, * for every other, for all its services together."),
    ] = {}
    accelerators_per_node: Annotated[
        int | None, Field(ge=1, description="On the largest node; omitted: what the nodes say, once there are some.")
    ] = None
    sharing: Annotated[
        Sharing | None, Field(description="How its GPUs are shared; omitted: what the nodes' labels say.")
    ] = None
    device_class: Annotated[
        str, Field(description="DeviceClass of resource claims; empty: that of NVIDIA's driver.")
    ] = ""
    device_selectors: Annotated[
        list[str], Field(description="CEL expressions that a claimed device must meet, beside those of the class.")
    ] = []

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if name := self.template.resources.above_limit():
            raise ValueError(
                f"template.resources: the request of {name} is more than its limit: raise limits, or lower requests"
            )
        return self

    def quota_of(self, namespace: str) -> int | None:
        """Accelerators that the services of `namespace` may take here together; None: any number."""
        return self.quota.get(namespace, self.quota.get("*"))


class CacheVerify(StrEnum):
    """When files in the cache are read and compared with their checksums."""

    CHANGED = "Changed"
    ALWAYS = "Always"


class WeightsCache(ApiModel):
    """Where weights from hubs and buckets are kept, so that each comes once. Empty: each pod fetches for itself."""

    host_path: Annotated[
        str | None,
        Field(description="A folder of each node that user 1000 may write; the chart's node DaemonSet makes it."),
    ] = None
    claim_name: Annotated[
        str | None, Field(description="A PersistentVolumeClaim of this name in each service's namespace.")
    ] = None
    size_limit: Annotated[
        str | None,
        Field(description="What all models may take, as 500Gi. Omitted: the volume. What was used longest ago goes."),
    ] = None
    verify: Annotated[
        CacheVerify,
        Field(description="Changed: a file that was touched, and all weekly. Always: every file at each start."),
    ] = CacheVerify.CHANGED

    @property
    def size_limit_bytes(self) -> int | None:
        """The limit in bytes; None where there is none."""
        size = parse_quantity(self.size_limit) if self.size_limit else None
        return int(size) if size is not None and size >= 1 else None

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if self.host_path and self.claim_name:
            raise ValueError("weightsCache has hostPath and claimName: keep one")
        if self.host_path and (not self.host_path.startswith("/") or self.host_path == "/" or ".." in self.host_path):
            raise ValueError(
                f"weightsCache.hostPath {self.host_path!r} is no folder of a node: write one such as /var/cache/llms"
            )
        if self.size_limit is not None and not self.size_limit_bytes:
            raise ValueError(f"weightsCache.sizeLimit {self.size_limit!r} is no size: write one such as 500Gi")
        return self


class PrometheusConnection(ApiModel):
    """Where signals come from. Without a URL the operator reads the pods themselves."""

    url: str | None = None
    ca_file: str | None = None
    headers: dict[str, str] = {}
    username_file: str | None = None
    password_file: str | None = None
    token_file: str | None = None


class FleetDefaults(ApiModel):
    """Everything a service may leave unsaid."""

    operator_image: str = "ghcr.io/triton-llm/llmservice-operator:0.1.0"
    images: dict[Backend, EngineImage] = {
        Backend.TORCH: EngineImage(image="nvcr.io/nvidia/tritonserver:26.07-vllm-python-py3", triton_version="2.71.0"),
        Backend.VLLM: EngineImage(image="nvcr.io/nvidia/tritonserver:26.07-vllm-python-py3", triton_version="2.71.0"),
        Backend.TENSORRTLLM: EngineImage(
            image="nvcr.io/nvidia/tritonserver:26.07-trtllm-python-py3", triton_version="2.71.0"
        ),
    }
    image_pull_policy: str = "IfNotPresent"
    pools: dict[str, Pool] = {"cpu": Pool()}
    built_in_pools: Annotated[
        list[str],
        Field(description="Names of the accelerator catalogue that are pools by themselves; * stands for any part."),
    ] = ["a100-*"]
    objectives: Objectives = Objectives()
    prometheus: PrometheusConnection = PrometheusConnection()
    signals_interval: Annotated[
        Duration,
        Field(
            ge=timedelta(seconds=5),
            le=timedelta(minutes=1),
            description="Between two looks at a service; the tuner decides on two. Not below the Prometheus' scrapes.",
        ),
    ] = timedelta(seconds=15)
    pod_monitor: bool = False
    pod_monitor_labels: Annotated[
        dict[str, str], Field(description="Labels by which the Prometheus operator selects PodMonitors.")
    ] = {}
    network_policy: bool = False
    weights_cache: WeightsCache = WeightsCache()
    endpoint_drain: Annotated[
        Duration, Field(description="How long a stopping replica still takes requests, while proxies forget it.")
    ] = timedelta(seconds=10)
