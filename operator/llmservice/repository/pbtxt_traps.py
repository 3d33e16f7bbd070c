"""What Triton takes without a word and does otherwise than it reads (knowledge from its schedulers' source)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from llmservice.repository.pbtxt_finding import Lines, PbtxtFinding, warning

_OWN_QUEUE: Final = ("vllm", "tensorrtllm")
_OFTEN: Final = 2


def check(config: Any, line: Lines) -> Iterator[PbtxtFinding]:
    """Traps in a configuration that parses."""
    for trap in (_count, _priorities_off, _timeout_override, _size_per_level, _one_instance, _no_batches):
        yield from trap(config, line)
    for trap in (_preferred_below_maximum, _shapes, _own_queue, _copies, _ordered_streams):
        yield from trap(config, line)


def _count(config: Any, line: Lines) -> Iterator[PbtxtFinding]:
    if any(group.count < 1 for group in config.instance_group) and line("instance_group", "count"):
        yield warning(
            "trap-count", line("instance_group", "count"), "A count below 1 becomes 1.", "Write 1, or unload the model."
        )


def _priorities_off(config: Any, line: Lines) -> Iterator[PbtxtFinding]:
    batching = config.dynamic_batching
    if not batching.priority_levels and (batching.default_priority_level or batching.priority_queue_policy):
        at = line("dynamic_batching", "default_priority_level") or line("dynamic_batching", "priority_queue_policy")
        yield warning(
            "trap-priorities-off",
            at,
            "Without `priority_levels` the default level and the policies per level are ignored.",
            "Add `priority_levels: N`.",
        )


def _policies(config: Any) -> list[Any]:
    batching = config.dynamic_batching
    return [batching.default_queue_policy, *batching.priority_queue_policy.values()]


def _timeout_override(config: Any, line: Lines) -> Iterator[PbtxtFinding]:
    if any(p.allow_timeout_override and not p.default_timeout_microseconds for p in _policies(config)):
        at = line("dynamic_batching", "default_queue_policy", "allow_timeout_override") or line("dynamic_batching")
        yield warning(
            "trap-timeout-override",
            at,
            "Clients may only shorten a timeout, and there is none to shorten: theirs are ignored.",
            "Add `default_timeout_microseconds`, the longest wait allowed.",
        )


def _size_per_level(config: Any, line: Lines) -> Iterator[PbtxtFinding]:
    batching = config.dynamic_batching
    size = batching.default_queue_policy.max_queue_size
    if size and batching.priority_levels > 1:
        yield warning(
            "trap-size-per-level",
            line("dynamic_batching", "default_queue_policy", "max_queue_size"),
            f"`max_queue_size` holds for each level: {batching.priority_levels * size} requests may wait, not {size}.",
            "Divide it, or give each level its own in `priority_queue_policy`.",
        )


def _one_instance(config: Any, line: Lines) -> Iterator[PbtxtFinding]:
    batching = config.dynamic_batching
    instances = sum(max(1, group.count) * max(1, len(group.gpus)) for group in config.instance_group) or 1
    limited = any(p.max_queue_size or p.default_timeout_microseconds for p in _policies(config))
    if instances < _OFTEN and config.model_transaction_policy.decoupled and (batching.priority_levels or limited):
        yield warning(
            "trap-no-prefetch",
            line("dynamic_batching"),
            "With priorities or queue limits Triton fetches no batch ahead, so one instance idles between batches.",
            "Give a model without weights `count: 2`.",
        )


def _no_batches(config: Any, line: Lines) -> Iterator[PbtxtFinding]:
    if config.HasField("dynamic_batching") and config.max_batch_size == 0:
        delay = config.dynamic_batching.max_queue_delay_microseconds
        waits = f" and {delay} µs of delay wait for nobody" if delay else ""
        yield warning(
            "trap-no-batches",
            line("dynamic_batching"),
            f"With `max_batch_size: 0` every batch holds one request{waits}; only queue limits and priorities work.",
            "Write the `max_batch_size` that the model can take.",
        )


def _preferred_below_maximum(config: Any, line: Lines) -> Iterator[PbtxtFinding]:
    sizes = config.dynamic_batching.preferred_batch_size
    if sizes and max(sizes) < config.max_batch_size:
        yield warning(
            "trap-preferred-sizes",
            line("dynamic_batching", "preferred_batch_size"),
            f"Batches of {max(sizes) + 1} will come too: the largest preferred size is below `max_batch_size`.",
            "Remove `preferred_batch_size` unless single sizes are much faster than others.",
        )


def _shapes(config: Any, line: Lines) -> Iterator[PbtxtFinding]:
    if not config.HasField("dynamic_batching") or config.max_batch_size < _OFTEN:
        return
    varying = {i: t.name for i, t in enumerate(config.input) if -1 in t.dims and not t.allow_ragged_batch}
    if varying:
        yield warning(
            "trap-shapes",
            line("input", index=min(varying)),
            f"Requests whose {', '.join(varying.values())} differ in length never share a batch.",
            "Add `allow_ragged_batch: true`, or take text as `TYPE_STRING` with `dims: [1]`.",
        )
    optional = [tensor.name for tensor in config.input if tensor.optional]
    if optional:
        yield warning(
            "trap-optional-inputs",
            line("input", "optional"),
            f"Requests share a batch only when they give the same optional inputs ({', '.join(optional)}).",
            "Let every client send the same ones.",
        )


def _own_queue(config: Any, line: Lines) -> Iterator[PbtxtFinding]:
    batching = config.dynamic_batching
    set_fields = [name for name in ("max_queue_delay_microseconds", "priority_levels") if getattr(batching, name)]
    if config.backend in _OWN_QUEUE and set_fields:
        yield warning(
            "trap-own-queue",
            line("dynamic_batching"),
            f"The {config.backend} backend takes requests out of Triton's queue at once: {' and '.join(set_fields)} "
            "change nothing.",
            "Queue on a model without weights in front of it, as an LLMService does.",
        )


def _copies(config: Any, line: Lines) -> Iterator[PbtxtFinding]:
    if config.backend in _OWN_QUEUE and any(group.count > 1 for group in config.instance_group):
        yield warning(
            "trap-copies",
            line("instance_group", "count"),
            "Each instance loads the weights again, on the same GPU.",
            "Write `count: 1` and raise the number of replicas.",
        )


def _ordered_streams(config: Any, line: Lines) -> Iterator[PbtxtFinding]:
    ordered = config.dynamic_batching.preserve_ordering and config.dynamic_batching.priority_levels <= 1
    if ordered and config.model_transaction_policy.decoupled:
        yield warning(
            "trap-ordered-streams",
            line("dynamic_batching", "preserve_ordering"),
            "With `preserve_ordering` a streamed answer waits until every earlier one has ended.",
            "Remove `preserve_ordering`.",
        )
