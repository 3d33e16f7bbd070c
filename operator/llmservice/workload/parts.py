"""What every pod of a replica is made from: its pool, its image, its template and its accelerators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from llmservice.api.fleet import EngineImage, FleetDefaults, Pool
from llmservice.api.plan import CapacityPlan
from llmservice.api.service import LLMService
from llmservice.api.template import PodTemplate
from llmservice.capacity.pools import resource_of
from llmservice.repository.errors import RenderError
from llmservice.repository.images import triton_version_of
from llmservice.workload.claims import is_claimed
from llmservice.workload.template import merge


@dataclass(frozen=True)
class Parts:
    """What every pod of a replica is made from. `accelerators` are extended resources; none where it has a claim."""

    pool: Pool
    image: EngineImage
    template: PodTemplate
    claimed: bool
    accelerators: dict[str, str]

    @classmethod
    def of(cls, service: LLMService, plan: CapacityPlan, fleet: FleetDefaults) -> Self:
        """The parts. Raises RenderError."""
        pool, claimed = pool_of(service, fleet), is_claimed(service, plan)
        return cls(
            pool=pool,
            image=engine_image(service, fleet),
            template=merge(pool.template, service.spec.template),
            claimed=claimed,
            accelerators={} if claimed else accelerator_resources(pool, plan),
        )


def pool_of(service: LLMService, fleet: FleetDefaults) -> Pool:
    """The service's pool. Raises RenderError that names the pools there are."""
    name = service.spec.placement.pool
    if name not in fleet.pools:
        raise RenderError(
            "spec.placement.pool", f"there is no pool {name!r}: use one of {', '.join(sorted(fleet.pools)) or '(none)'}"
        )
    return fleet.pools[name]


def engine_image(service: LLMService, fleet: FleetDefaults) -> EngineImage:
    """The Triton image of the service's replicas, and the Triton version in it.

    Of an image that the service names, the version is that of NVIDIA's tag, else taken to be the default image's.
    """
    engine = service.spec.engine
    if engine.backend not in fleet.images:
        raise RenderError(
            "spec.engine.backend",
            f"the fleet has no image for {engine.backend.value}, whose Triton version says what can be rendered: set "
            f"fleet.images.{engine.backend.value} in the chart's values",
        )
    default = fleet.images[engine.backend]
    if engine.image is None:
        return default
    return EngineImage(image=engine.image, triton_version=triton_version_of(engine.image) or default.triton_version)


def accelerator_resources(pool: Pool, plan: CapacityPlan) -> dict[str, str]:
    """The extended resource of one pod: `{"nvidia.com/gpu": "2"}`; empty on CPU."""
    resource = resource_of(pool)
    if not resource or not plan.accelerators_per_replica:
        return {}
    return {resource: str(plan.accelerators_per_pod)}
