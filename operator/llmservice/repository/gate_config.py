"""The gate's configuration: the weightless, decoupled model that clients call and that Triton queues for."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from llmservice.api.batching import Batching, BatchingMode, Queue
from llmservice.api.knobs import Knobs
from llmservice.api.plan import CapacityPlan
from llmservice.api.service import LLMService
from llmservice.repository.errors import RenderError
from llmservice.repository.layout import Paths, gate_name
from llmservice.repository.proto import DataType, ModelConfig, ModelInstanceGroup, ModelQueuePolicy

GATE_INSTANCES: Final = 2
"""Always two, never a knob: with queue policies Triton stops prefetching and one instance stalls with free slots;
and removing a gate instance in place hangs its live streams (both measured on tritonserver 2.51)."""

CONTINUOUS_BATCH_LIMIT: Final = 4
"""Most requests that one `execute` of a Continuous gate takes.

What `execute` holds has left Triton's queue: it is no longer ordered by priority, timed out, or counted as pending.
So at most eight requests, in two instances, are out of order. Less would not group admissions (a batch of one makes
the delay meaningless and costs a call into Python per request); more only lengthens the line that nobody can reorder,
since the engine admits per step whatever the batch was."""

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
    }
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


def _set_dynamic_batching(config: Any, batching: Batching, knobs: Knobs) -> None:
    """Delay, sizes, order, priorities and queue limits. Without batching there is nothing to wait for: no delay."""
    target = config.dynamic_batching
    target.SetInParent()
    if batching.mode is not BatchingMode.NONE:
        target.max_queue_delay_microseconds = _microseconds(knobs.max_queue_delay)
    if batching.mode is BatchingMode.DYNAMIC:
        # The plan may hold fewer sequences than the sizes were written for, and Triton refuses a larger one (V6).
        sizes = sorted({size for size in batching.preferred_batch_sizes if size <= config.max_batch_size})
        target.preferred_batch_size.extend(sizes)
    target.preserve_ordering = batching.preserve_ordering
    _set_priorities(target, batching)


def _set_priorities(target: Any, batching: Batching) -> None:
    """Levels and queue policies. A level's policy replaces the default one whole, so it inherits what it leaves out.

    A full queue and a request that waited too long are refused, never put behind others: a client that is told
    may go elsewhere.
    """
    priorities, queue = batching.priorities, batching.queue
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
    if queue.max_size is not None or queue.timeout is not None:
        target.default_queue_policy.CopyFrom(_policy(queue.max_size, queue.timeout))
    for index, level in enumerate(queue.levels):
        if level.level > levels:
            raise RenderError(
                f"spec.batching.queue.levels[{index}].level",
                f"{level.level} is no level: there are {levels}; raise priorities.levels or remove the entry",
            )
        max_size, timeout = _inherit(queue, level.max_size, level.timeout)
        target.priority_queue_policy[level.level].CopyFrom(_policy(max_size, timeout))


def _inherit(queue: Queue, max_size: int | None, timeout: timedelta | None) -> tuple[int | None, timedelta | None]:
    """A level's limits, each the queue's where the level names none."""
    return (queue.max_size if max_size is None else max_size, queue.timeout if timeout is None else timeout)


def _policy(max_size: int | None, timeout: timedelta | None) -> Any:
    """One queue's limits. Clients may shorten a timeout, and only where there is one to shorten."""
    policy = ModelQueuePolicy(timeout_action=ModelQueuePolicy.REJECT)
    if max_size is not None:
        policy.max_queue_size = max_size
    if timeout:
        policy.default_timeout_microseconds = _microseconds(timeout)
        policy.allow_timeout_override = True
    return policy


def _microseconds(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1)
