"""`spec.placement`: where replicas run, how they get their accelerators, and who lets them start."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from llmservice.api.schema import ApiModel, Rule


class Spread(StrEnum):
    """How replicas keep apart over the pool's failure domains."""

    PREFERRED = "Preferred"
    REQUIRED = "Required"


class Allocation(StrEnum):
    """How a replica asks for its accelerators."""

    EXTENDED_RESOURCE = "ExtendedResource"
    RESOURCE_CLAIM = "ResourceClaim"


class Queue(ApiModel):
    """A queue of Kueue, which holds pods back until their share of its quota is free."""

    name: Annotated[str, Field(min_length=1, max_length=63, description="The LocalQueue, in the service's namespace.")]
    priority_class: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=63,
            description="WorkloadPriorityClass: who is admitted first. The scheduler's is template.priorityClassName.",
        ),
    ] = None

    rules = tuple(
        Rule(
            code=f"own-queue-{field}",
            expression=f"!has(self.{field}) || self.{field}.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
            message=f'"%s names no {kind}: write lower-case letters, digits and -, with a letter or digit at both '
            f'ends".format([self.{field}])',
            field_path=f".{field}",
        )
        for field, kind in (("name", "LocalQueue"), ("priorityClass", "WorkloadPriorityClass"))
    )


class Placement(ApiModel):
    """Where replicas run."""

    pool: Annotated[
        str,
        Field(min_length=1, max_length=63, description="Name of a pool of the fleet: one kind of accelerator."),
    ] = "cpu"
    spread: Annotated[
        Spread,
        Field(
            description="Over the pool's failure domains. Preferred: apart where there is room. Required: over domains "
            "larger than a node counts differ by at most one, and a replica that would break that waits."
        ),
    ] = Spread.PREFERRED
    allocation: Annotated[
        Allocation,
        Field(
            description="ExtendedResource: of a device plugin, such as nvidia.com/gpu. ResourceClaim: of a driver for "
            "dynamic resource allocation, by the pool's DeviceClass; Kubernetes 1.34 or later."
        ),
    ] = Allocation.EXTENDED_RESOURCE
    queue: Annotated[Queue | None, Field(description="The queue of Kueue that admits the replicas.")] = None

    rules = (
        Rule(
            code="own-pool-name",
            expression="self.pool.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",
            message='"%s is not a pool name: pools have names such as cpu, a100-80gb, mig-3g.40gb".format([self.pool])',
            field_path=".pool",
        ),
        Rule(
            code="own-claim-cpu",
            expression="self.allocation != 'ResourceClaim' || self.pool != 'cpu'",
            message='"pool cpu has no accelerators to claim: write allocation: ExtendedResource, or a pool of '
            'accelerators"',
            field_path=".allocation",
        ),
    )
