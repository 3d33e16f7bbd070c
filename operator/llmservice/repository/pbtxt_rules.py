"""Rules that Triton enforces when it loads a model (core/src/model_config_utils.cc), by their number V1 to V25."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any, Final

from llmservice.repository.layout import CONFIG_FILE
from llmservice.repository.pbtxt_finding import Lines, PbtxtFinding, error, warning
from llmservice.repository.proto import ModelInstanceGroup, ModelQueuePolicy


def check(config: Any, line: Lines, filename: str) -> Iterator[PbtxtFinding]:
    """What Triton would refuse in a configuration that parses."""
    yield from _name(config, line, filename)
    for rule in (
        _backend,
        _batch_size,
        _preferred_sizes,
        _priorities,
        _ordering,
        _cache,
        _instances,
        _tensors,
        _metrics,
    ):
        yield from rule(config, line)


def _name(config: Any, line: Lines, filename: str) -> Iterator[PbtxtFinding]:
    folder = PurePath(filename).parent.name
    if not config.name:
        yield error("V1", 0, "The model has no `name`.", f'Write `name: "{folder or "…"}"`.')
    elif PurePath(filename).name == CONFIG_FILE and folder and folder != config.name:
        yield error(
            "V1",
            line("name"),
            f"The name `{config.name}` is not that of the folder, `{folder}`.",
            "Triton wants both to be equal: rename one.",
        )


def _backend(config: Any, line: Lines) -> Iterator[PbtxtFinding]:
    if not config.backend and not config.platform:
        yield warning(
            "V2",
            0,
            "Without `backend` and `platform` Triton guesses from the names of the model's files, or refuses it.",
            'Write for example `backend: "python"`.',
        )
    if config.platform == "ensemble":
        if config.backend:
            yield error("V2", line("backend"), "An ensemble has no backend.", "Remove `backend`.")
        for field in ("instance_group", "optimization", "model_warmup"):
            if line(field):
                yield error("V19", line(field), f"An ensemble may not have `{field}`.", "Set it on the steps' models.")
        if not config.ensemble_scheduling.step:
            yield error("V19", line("platform"), "The ensemble has no step.", "Add `ensemble_scheduling { … }`.")
    if config.backend == "vllm" and not config.model_transaction_policy.decoupled:
        yield warning(
            "V25",
            line("backend"),
            "The vllm backend refuses a model that is not decoupled, unless Triton may complete the configuration.",
            "Add `model_transaction_policy { decoupled: true }`.",
        )


def _batch_size(config: Any, line: Lines) -> Iterator[PbtxtFinding]:
    if config.max_batch_size < 0:
        yield error(
            "V3", line("max_batch_size"), "`max_batch_size` is negative.", "Write 0 for a model without batches."
        )


def _preferred_sizes(config: Any, line: Lines) -> Iterator[PbtxtFinding]:
    places = (
        (("dynamic_batching",), config.dynamic_batching.preferred_batch_size),
        (("sequence_batching", "oldest"), config.sequence_batching.oldest.preferred_batch_size),
    )
    for path, sizes in places:
        at = line(*path, "preferred_batch_size")
        code = ("V5", "V6") if path[0] == "dynamic_batching" else ("V13", "V13")
        if any(size <= 0 for size in sizes):
            yield error(code[0], at, "A preferred batch size is not positive.", "Write sizes of 1 or more, or none.")
        if any(size > config.max_batch_size for size in sizes):
            yield error(
                code[1],
                at,
                f"A preferred batch size is above `max_batch_size` ({config.max_batch_size}).",
                "Remove `preferred_batch_size`, which is best left out, or raise `max_batch_size`.",
            )
    slots = config.sequence_batching.direct.minimum_slot_utilization
    if not 0 <= slots <= 1:
        at = line("sequence_batching", "direct", "minimum_slot_utilization")
        yield error("V14", at, "`minimum_slot_utilization` is a share.", "Write a number from 0 to 1.")


def _priorities(config: Any, line: Lines) -> Iterator[PbtxtFinding]:
    batching = config.dynamic_batching
    levels = batching.priority_levels
    if not levels:
        return
    if not 1 <= batching.default_priority_level <= levels:
        at = line("dynamic_batching", "default_priority_level") or line("dynamic_batching", "priority_levels")
        yield error(
            "V7",
            at,
            f"With `priority_levels: {levels}` a `default_priority_level` from 1 to {levels} is mandatory.",
            f"Write `default_priority_level: {levels}`: 1 is the highest, and requests that name none should not win.",
        )
    wrong = sorted(level for level in batching.priority_queue_policy if not 1 <= level <= levels)
    if wrong:
        yield error(
            "V8",
            line("dynamic_batching", "priority_queue_policy"),
            f"`priority_queue_policy` names level {wrong[0]}, but there are {levels}.",
            f"Use keys from 1 to {levels}, or raise `priority_levels`.",
        )


def _ordering(config: Any, line: Lines) -> Iterator[PbtxtFinding]:
    batching = config.dynamic_batching
    if not batching.preserve_ordering:
        return
    at = line("dynamic_batching", "preserve_ordering")
    if batching.priority_levels > 1:
        yield error(
            "V9",
            at,
            "`preserve_ordering: true` cannot stand beside more than one priority level: one keeps the order of "
            "arrival, the other changes it.",
            "Remove `preserve_ordering`; for streamed answers it would also hold every answer behind the slowest.",
        )
    policies = [batching.default_queue_policy, *batching.priority_queue_policy.values()]
    if any(p.timeout_action == ModelQueuePolicy.DELAY and p.default_timeout_microseconds for p in policies):
        yield error(
            "V10",
            at,
            "`preserve_ordering: true` cannot stand beside the timeout action DELAY, which puts late requests last.",
            "Write `timeout_action: REJECT` or remove `preserve_ordering`.",
        )


def _cache(config: Any, line: Lines) -> Iterator[PbtxtFinding]:
    if not config.response_cache.enable:
        return
    if config.HasField("sequence_batching"):
        yield error("V11", line("response_cache"), "Sequences cannot be cached.", "Remove `response_cache`.")
    if config.model_transaction_policy.decoupled:
        yield error("V12", line("response_cache"), "Decoupled answers cannot be cached.", "Remove `response_cache`.")


_WITHOUT_GPUS: Final = (ModelInstanceGroup.KIND_CPU, ModelInstanceGroup.KIND_MODEL)


def _instances(config: Any, line: Lines) -> Iterator[PbtxtFinding]:
    for group in config.instance_group:
        if group.kind in _WITHOUT_GPUS and group.gpus:
            yield error(
                "V17",
                line("instance_group", "gpus"),
                f"A group of {ModelInstanceGroup.Kind.Name(group.kind)} may not list `gpus`.",
                "Remove `gpus`, or write `kind: KIND_GPU`.",
            )
        if any(gpu < 0 for gpu in group.gpus):
            yield error("V17", line("instance_group", "gpus"), "A GPU's number is negative.", "Count GPUs from 0.")


def _tensors(config: Any, line: Lines) -> Iterator[PbtxtFinding]:
    for field, tensors in (("input", config.input), ("output", config.output)):
        for index, tensor in enumerate(tensors):
            said, at = f"{field.capitalize()} {tensor.name or index + 1}", line(field, index=index)
            if not tensor.name:
                yield error("V20", at, f"{said} has no name.", 'Add `name: "…"`.')
            if not tensor.data_type:
                yield error("V20", at, f"{said} has no `data_type`.", "Add `data_type: TYPE_…`.")
            if not tensor.dims:
                yield error("V20", at, f"{said} has no `dims`.", "Add for example `dims: [1]`.")
            if any(dim < 1 and dim != -1 for dim in tensor.dims):
                yield error("V20", at, f"{said} has a size below 1.", "Write -1 for one that varies.")


def _metrics(config: Any, line: Lines) -> Iterator[PbtxtFinding]:
    for control in config.model_metrics.metric_control:
        at = line("model_metrics", "metric_control") or line("model_metrics")
        if not control.metric_identifier.family:
            yield error("V22", at, "A metric control names no family.", 'Add `metric_identifier { family: "…" }`.')
        buckets = list(control.histogram_options.buckets)
        if not buckets or buckets != sorted(set(buckets)):
            yield error("V22", at, "Buckets of a histogram must be given, ascending.", "Write `buckets: [1, 2, 5]`.")
