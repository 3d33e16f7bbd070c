"""The gate's configuration: the weightless, decoupled model that clients call and that Triton queues for."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any, Final

from llmservice.api.batching import Batching, BatchingMode, Queue, QueueLevel
from llmservice.api.findings import Finding
from llmservice.api.knobs import Knobs
from llmservice.api.plan import CapacityPlan
from llmservice.api.service import LLMService
from llmservice.repository.errors import RenderError
from llmservice.repository.layout import Paths, gate_name
from llmservice.repository.proto import DataType, ModelConfig, ModelInstanceGroup

GATE_INSTANCES: Final = 1
"""Always one, never a knob: one process holds the line, so that levels, turns, limits and batches are the service's and
not a process's. Removing a gate instance in place hangs its live streams (measured on tritonserver 2.51)."""

CONTINUOUS_BATCH_LIMIT: Final = 4
"""Most requests that Triton gathers for one call of a Continuous gate: so many leave without waiting for the delay.

More would only make a burst wait, since the engine admits per step whatever came together; one would make the delay
meaningless and cost a call into Python per request."""

_INPUTS: Final = (
    ("text_input", "TYPE_STRING"),
    ("messages", "TYPE_STRING"),
    ("stream", "TYPE_BOOL"),
    ("sampling_parameters", "TYPE_STRING"),
)
_OUTPUTS: Final = (
    ("text_output", "TYPE_STRING", -1),
    ("token_ids", "TYPE_INT32", -1),
    ("index", "TYPE_UINT32", -1),
    ("logprobs", "TYPE_STRING", -1),
    ("finish_reason", "TYPE_STRING", -1),
    ("num_input_tokens", "TYPE_UINT32", 1),
    ("num_output_tokens", "TYPE_UINT32", -1),
)
"""Of any length where a response may carry several answers."""


def gate_config(service: LLMService, plan: CapacityPlan, knobs: Knobs, paths: Paths) -> Any:
    """The gate's `ModelConfig`. Raises RenderError for priorities and queue levels that Triton would refuse."""
    batching = service.spec.batching
    sequences = engine_sequences(batching, plan)
    config = ModelConfig(name=gate_name(service.metadata.name), backend="python")
    config.max_batch_size = gate_batch_size(batching.mode, sequences)
    for name, data_type in _INPUTS:
        config.input.add(name=name, data_type=DataType.Value(data_type), dims=[1], optional=True)
    for name, data_type, dim in _OUTPUTS:
        config.output.add(name=name, data_type=DataType.Value(data_type), dims=[dim])
    config.model_transaction_policy.decoupled = True
    config.instance_group.add(kind=ModelInstanceGroup.KIND_CPU, count=GATE_INSTANCES)
    _set_dynamic_batching(config, batching, knobs)
    parameters = {
        "run_directory": paths.run_directory,
        "service": service.metadata.name,
        "mode": batching.mode.value,
        "max_sequences": str(sequences),
    } | _line_parameters(batching)
    for key, value in parameters.items():
        config.parameters[key].string_value = value
    return config


def engine_sequences(batching: Batching, plan: CapacityPlan) -> int:
    """Sequences in one engine instance: what the plan holds, and one where nothing is batched."""
    return 1 if batching.mode is BatchingMode.NONE else max(1, plan.max_sequences)


def gate_batch_size(mode: BatchingMode, sequences: int) -> int:
    """The gate's `max_batch_size`: the batch itself where the gate forms it, else a bound on what it holds."""
    match mode:
        case BatchingMode.NONE:
            return 1
        case BatchingMode.STATIC | BatchingMode.DYNAMIC:
            return sequences
        case BatchingMode.CONTINUOUS:
            return min(CONTINUOUS_BATCH_LIMIT, sequences)


def gate_warnings(service: LLMService, plan: CapacityPlan) -> tuple[Finding, ...]:
    """What the gate of this plan leaves out of the spec: preferred sizes of batches larger than it can form."""
    batching = service.spec.batching
    most = gate_batch_size(batching.mode, engine_sequences(batching, plan))
    larger = sorted({size for size in batching.preferred_batch_sizes if size > most})
    if batching.mode is not BatchingMode.DYNAMIC or not larger:
        return ()
    sizes = ", ".join(map(str, larger))
    return (
        Finding(
            "plan-preferred-size",
            "spec.batching.preferredBatchSizes",
            f"No batch of {sizes} is formed: the capacity plan has room for {most} sequences at once.",
            f"Write sizes of at most {most}, or batching.maxSequences: {larger[-1]} where you know that they fit.",
        ),
    )


def _set_dynamic_batching(config: Any, batching: Batching, knobs: Knobs) -> None:
    """Delay, sizes, order, priorities and queue limits. Without batching there is nothing to wait for: no delay."""
    target = config.dynamic_batching
    target.SetInParent()
    if batching.mode is not BatchingMode.NONE:
        target.max_queue_delay_microseconds = _microseconds(knobs.max_queue_delay)
    if batching.mode is BatchingMode.DYNAMIC:
        # The plan may hold fewer sequences than the sizes were written for, and Triton refuses a larger one (V6):
        # `gate_warnings` tells of those.
        sizes = sorted({size for size in batching.preferred_batch_sizes if size <= config.max_batch_size})
        target.preferred_batch_size.extend(sizes)
    target.preserve_ordering = batching.preserve_ordering
    _set_priorities(target, batching)


def _set_priorities(target: Any, batching: Batching) -> None:
    """Levels, by which Triton orders what it has not yet given to the gate.

    Its queue policies stay empty: the gate takes every request at once, and holds limits and timeouts itself. Triton's
    own expire late, spare what the gate has taken, and count nothing (docs/decisions/0008).
    """
    priorities = batching.priorities
    levels = priorities.levels
    if levels > 1 and batching.preserve_ordering:
        raise RenderError(
            "spec.batching.preserveOrdering", "cannot stand beside priorities: write false, or priorities.levels: 1"
        )
    if levels and not 1 <= (priorities.default or levels) <= levels:
        raise RenderError("spec.batching.priorities.default", f"must be a level: write a number from 1 to {levels}")
    if levels:
        target.priority_levels = levels
        # Requests that name no level must not overtake those that do.
        target.default_priority_level = priorities.default or levels


def _line_parameters(batching: Batching) -> dict[str, str]:
    """What the gate needs for its line. A level inherits the queue's limits where it names none of its own."""
    priorities, queue = batching.priorities, batching.queue
    count = max(1, priorities.levels)
    own = {level.level: level for level in queue.levels}
    for index, entry in enumerate(queue.levels):
        if entry.level > priorities.levels:
            raise RenderError(
                f"spec.batching.queue.levels[{index}].level",
                f"{entry.level} is no level: there are {priorities.levels}; raise priorities.levels or remove it",
            )
    limits = []
    for number in range(1, count + 1):
        level = own.get(number, QueueLevel(level=number))
        max_size, timeout = _inherit(queue, level.max_size, level.timeout)
        limit = {"max_size": max_size, "timeout_us": _microseconds(timeout) if timeout else None}
        limits.append({key: value for key, value in limit.items() if value is not None})
    parameters = {}
    if priorities.levels:
        parameters["priority_levels"] = str(priorities.levels)
        parameters["default_priority_level"] = str(priorities.default or priorities.levels)
    if any(limits):
        parameters["queue_limits"] = json.dumps(limits)
    return parameters


def _inherit(queue: Queue, max_size: int | None, timeout: timedelta | None) -> tuple[int | None, timedelta | None]:
    """A level's limits, each the queue's where the level names none."""
    return (queue.max_size if max_size is None else max_size, queue.timeout if timeout is None else timeout)


def _microseconds(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1)
