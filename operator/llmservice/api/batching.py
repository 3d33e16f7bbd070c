"""`spec.batching`: how requests become batches."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from llmservice.api.duration import Duration, cel_duration, cel_if_duration
from llmservice.api.schema import NO_DEFAULT, ApiModel, Rule


class BatchingMode(StrEnum):
    """How batches form: one at a time, fixed, by size and delay, or step by step inside the engine."""

    NONE = "None"
    STATIC = "Static"
    DYNAMIC = "Dynamic"
    CONTINUOUS = "Continuous"


_POSITIVE_TIMEOUT = Rule(
    code="own-queue-timeout",
    expression="!has(self.timeout) || " + cel_if_duration("self.timeout", "duration(self.timeout) >= duration('1ms')"),
    message='"a timeout of %s refuses every request: write at least 1ms, such as 30s, or leave timeout out"'
    ".format([self.timeout])",
    field_path=".timeout",
)


class Priorities(ApiModel):
    """Priority levels of requests; 1 is the highest. `levels: 0` turns them off.

    A request names its level with the parameter `priority_level`. Lower levels leave one in eight sequences free.
    """

    levels: Annotated[int, Field(ge=0, le=16, description="How many levels; 0 turns priorities off.")] = 0
    default: Annotated[
        int | None, Field(ge=1, le=16, description="Level of requests that name none. Needed when levels is not 0.")
    ] = None

    rules = (
        Rule(
            code="V7-default-level",
            expression="self.levels == 0 || has(self.default)",
            message='"priorities need a default level: write default: %d for the lowest, or another from 1 to %d"'
            ".format([self.levels, self.levels])",
        ),
        Rule(
            code="V7-default-range",
            expression="self.levels == 0 || !has(self.default) || self.default <= self.levels",
            message='"default level %d is not one of the %d levels: write a number from 1 (highest) to %d"'
            ".format([self.default, self.levels, self.levels])",
            field_path=".default",
        ),
    )


class QueueLevel(ApiModel):
    """Limits of one priority level."""

    level: Annotated[int, Field(ge=1, le=16, description="The level; 1 is the highest.")]
    max_size: Annotated[int | None, Field(ge=1, le=1_000_000, description="Requests of this level that may wait.")] = (
        None
    )
    timeout: Annotated[Duration | None, Field(description="A request of this level that waits longer is refused.")] = (
        None
    )

    rules = (_POSITIVE_TIMEOUT,)


class Queue(ApiModel):
    """Limits of the gate's line, which are of each priority level; a request that is refused is counted."""

    max_size: Annotated[int | None, Field(ge=1, le=1_000_000, description="Requests that may wait, per level.")] = None
    timeout: Annotated[Duration | None, Field(description="A request that waits longer is refused.")] = None
    levels: Annotated[
        list[QueueLevel], Field(max_length=16, description="Limits of single levels, instead of the common ones.")
    ] = []

    rules = (
        _POSITIVE_TIMEOUT,
        Rule(
            code="own-queue-level-once",
            expression="!has(self.levels) || self.levels.all(a, self.levels.exists_one(b, b.level == a.level))",
            message='"each priority level may appear once: merge the entries of the same level"',
            field_path=".levels",
        ),
    )


class Batching(ApiModel):
    """How requests become batches."""

    mode: Annotated[
        BatchingMode,
        Field(
            description="None: one request at a time. Static: batches of a fixed size. Dynamic: batches by size and "
            "delay that run to completion. Continuous: requests join and leave at every step."
        ),
    ] = BatchingMode.CONTINUOUS
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
    preserve_ordering: Annotated[
        bool, Field(description="Answers leave in the order of their requests. A slow one holds up the rest.")
    ] = False
    max_queue_delay: Annotated[
        Duration,
        Field(
            description="How long the gate may wait to form a batch. Omitted: 5ms. Seeds the knob; editing it seeds "
            "again. In mode Continuous it only groups admissions.",
            json_schema_extra={NO_DEFAULT: True},
        ),
    ] = timedelta(milliseconds=5)
    priorities: Priorities = Priorities()
    queue: Queue = Queue()

    rules = (
        Rule(
            code="V6-preferred-size",
            expression="!has(self.preferredBatchSizes) || !has(self.maxSequences) "
            "|| self.preferredBatchSizes.all(s, s <= self.maxSequences)",
            message='"no preferred batch size may be above maxSequences (%d): lower it, or raise maxSequences"'
            ".format([self.maxSequences])",
            field_path=".preferredBatchSizes",
        ),
        Rule(
            code="own-preferred-mode",
            expression="!has(self.preferredBatchSizes) || size(self.preferredBatchSizes) == 0 "
            "|| self.mode == 'Dynamic'",
            message='"preferred batch sizes mean nothing in mode %s: remove them, or write mode: Dynamic"'
            ".format([self.mode])",
            field_path=".preferredBatchSizes",
        ),
        Rule(
            code="V8-queue-level-range",
            expression="!has(self.queue) || !has(self.queue.levels) "
            "|| self.queue.levels.all(l, l.level <= self.priorities.levels)",
            message="self.priorities.levels == 0 "
            '? "without priority levels there is nothing to limit by level: remove queue.levels, or write '
            'priorities.levels" '
            ': "queue.levels may only name levels 1 to %d: change the entry, or raise priorities.levels"'
            ".format([self.priorities.levels])",
            field_path=".queue",
        ),
        Rule(
            code="V9-preserve-ordering",
            expression="!self.preserveOrdering || self.priorities.levels <= 1",
            message='"preserveOrdering and %d priority levels exclude each other: remove one of them"'
            ".format([self.priorities.levels])",
            field_path=".preserveOrdering",
        ),
        Rule(
            code="own-batch-tokens",
            expression="!has(self.maxBatchTokens) || !has(self.maxSequences) "
            "|| self.maxBatchTokens >= self.maxSequences",
            message='"maxBatchTokens %d is less than one token for each of %d sequences: write at least %d"'
            ".format([self.maxBatchTokens, self.maxSequences, self.maxSequences])",
            field_path=".maxBatchTokens",
        ),
        Rule(
            code="own-delay-range",
            expression=f"!has(self.maxQueueDelay) || {cel_duration('self.maxQueueDelay')} <= duration('10s')",
            message='"%s is too long to wait for a batch, every lone request would wait it out: write at most 10s; '
            'usual are 1ms to 50ms".format([self.maxQueueDelay])',
            field_path=".maxQueueDelay",
        ),
    )
