"""`spec.batching`: how requests become batches."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from llmservice.api.duration import Duration
from llmservice.api.schema import ApiModel


class BatchingMode(StrEnum):
    """How batches form."""

    NONE = "None"
    STATIC = "Static"
    DYNAMIC = "Dynamic"
    CONTINUOUS = "Continuous"


class Priorities(ApiModel):
    """Priority levels of requests; 1 is the highest. `levels: 0` turns them off."""

    levels: Annotated[int, Field(ge=0, le=16)] = 0
    default: Annotated[int | None, Field(ge=1, le=16, description="Level of requests that name none.")] = None


class QueueLevel(ApiModel):
    """Limits of one priority level."""

    level: Annotated[int, Field(ge=1, le=16)]
    max_size: Annotated[int | None, Field(ge=1, le=1_000_000)] = None
    timeout: Duration | None = None


class Queue(ApiModel):
    """Limits of the gate's queue. Triton keeps one queue per priority level, so `maxSize` is per level."""

    max_size: Annotated[int | None, Field(ge=1, le=1_000_000, description="Requests that may wait, per level.")] = None
    timeout: Annotated[Duration | None, Field(description="A request that waits longer is refused.")] = None
    levels: Annotated[list[QueueLevel], Field(max_length=16)] = []


class Batching(ApiModel):
    """How requests become batches."""

    mode: BatchingMode = BatchingMode.CONTINUOUS
    max_sequences: Annotated[
        int | None, Field(ge=1, le=4096, description="Sequences in the engine at once. Omitted: the capacity plan's.")
    ] = None
    max_batch_tokens: Annotated[
        int | None, Field(ge=1, le=1_048_576, description="Tokens in one step. Omitted: the backend's default.")
    ] = None
    preferred_batch_sizes: Annotated[
        list[Annotated[int, Field(ge=1, le=4096)]],
        Field(max_length=16, description="Sizes at which a Dynamic batch leaves at once. Best left empty."),
    ] = []
    preserve_ordering: bool = False
    max_queue_delay: Annotated[
        Duration,
        Field(description="How long the gate may wait to form a batch. Seeds the knob; editing it seeds again."),
    ] = timedelta(milliseconds=5)
    priorities: Priorities = Priorities()
    queue: Queue = Queue()
