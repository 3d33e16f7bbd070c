"""Service + fleet → the capacity plan: does it fit, and how many sequences at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from llmservice.api.batching import BatchingMode
from llmservice.api.engine import Backend
from llmservice.api.fleet import FleetDefaults, Pool
from llmservice.api.plan import CapacityPlan
from llmservice.api.service import LLMService
from llmservice.capacity.accelerators import ACCELERATORS, Accelerator, find_accelerator
from llmservice.capacity.memory import Layout, Memory, measure
from llmservice.capacity.models import Model, find_model, source_name
from llmservice.capacity.quantity import find_bytes, format_gib
from llmservice.capacity.remedies import remedies

UNKNOWN_SEQUENCES: Final = 8
"""Where the memory is not known: enough to batch, little enough for a small device."""

CPU_SEQUENCES: Final = 8
"""On a CPU, arithmetic and not memory is the limit: a larger batch only makes every token later."""

MOST_SEQUENCES: Final = {Backend.TORCH: 64, Backend.VLLM: 256, Backend.TENSORRTLLM: 256}

USUAL_LENGTH_DIVISOR: Final = 4
"""vLLM and TensorRT-LLM page the cache and preempt when it is full, so they are planned for sequences of a quarter of
the maximum length. The torch engine is planned for full ones."""


@dataclass(frozen=True)
class _Verdict:
    """Whether it fits, and why in words."""

    fits: bool | None
    reason: str
    remedies: tuple[str, ...] = ()


def plan(service: LLMService, fleet: FleetDefaults) -> CapacityPlan:
    """What one replica of `service` holds on its pool.

    `fits` is None, with the reason, where model, accelerator or memory is not known; then nothing is refused and the
    first load tells. `max_length` is 0 where neither the spec nor the catalogue says it: the engine reads the model's
    files. Raises nothing: an unknown pool is a plan that says so.
    """
    spec = service.spec
    pool = fleet.pools.get(spec.placement.pool)
    accelerator = find_accelerator(pool.accelerator) if pool else None
    model = find_model(spec.model.source)
    is_cpu = accelerator.is_cpu if accelerator else (pool.resource == "" if pool else False)
    max_length = spec.model.max_length or (model.max_length if model else 0)
    blank = CapacityPlan(
        pool=spec.placement.pool,
        accelerator=accelerator.name if accelerator else (pool.accelerator if pool else ""),
        accelerators_per_replica=0 if is_cpu else spec.engine.parallelism.tensor * spec.engine.parallelism.pipeline,
        max_sequences=_sequences(service, None, max_length, is_cpu=is_cpu),
        max_length=max_length,
    )
    if pool is None or accelerator is None:
        return replace(blank, reason=_unknown_place(service, pool, fleet))
    if model is None:
        return replace(
            blank, reason=f"{source_name(spec.model.source)} is not in the model catalogue: the first load tells."
        )
    layout = _layout(service, pool, accelerator)
    memory = measure(model, layout)
    if not layout.memory_bytes:
        reason = f"Pool {spec.placement.pool} does not say how much memory it has: set its memory, such as 8Gi."
        return replace(
            blank, weights_bytes=memory.weights_bytes, kv_bytes_per_token=memory.kv_bytes_per_token, reason=reason
        )
    verdict = _judge(service, fleet, model, layout, memory, accelerator, max_length)
    return replace(
        blank,
        max_sequences=_sequences(service, memory, max_length, is_cpu=is_cpu),
        weights_bytes=memory.weights_bytes,
        kv_bytes_per_token=memory.kv_bytes_per_token,
        kv_tokens=memory.kv_tokens,
        usable_bytes=memory.usable_bytes,
        fits=verdict.fits,
        reason=verdict.reason,
        remedies=verdict.remedies,
    )


def _layout(service: LLMService, pool: Pool, accelerator: Accelerator) -> Layout:
    spec = service.spec
    limit = {**pool.template.resources.limits, **spec.template.resources.limits}.get("memory")
    stated = pool.memory or (limit if accelerator.is_cpu else None)
    return Layout(
        memory_bytes=(find_bytes(stated) or 0) if stated else accelerator.memory_bytes,
        memory_percent=spec.kv_cache.memory_percent,
        dtype=spec.model.dtype,
        kv_dtype=spec.kv_cache.dtype,
        parallelism=spec.engine.parallelism,
        is_cpu=accelerator.is_cpu,
    )


def _judge(
    service: LLMService,
    fleet: FleetDefaults,
    model: Model,
    layout: Layout,
    memory: Memory,
    accelerator: Accelerator,
    max_length: int,
) -> _Verdict:
    """Fits when one sequence of the maximum length does, beside the weights."""
    pool = service.spec.placement.pool
    place = f"pool {pool}, {layout.accelerators} x {accelerator.name}" if not layout.is_cpu else f"pool {pool}"
    have = f"{format_gib(memory.usable_bytes)} usable on {place}"
    if accelerator.slice and layout.accelerators > 1:
        return _Verdict(
            fits=False,
            reason=f"An engine cannot be split over MIG slices, and its parallelism asks for {layout.accelerators}.",
            remedies=(
                "Write spec.engine.parallelism.tensor: 1 and pipeline: 1.",
                "Write spec.placement.pool: a pool of whole accelerators.",
            ),
        )
    weights = f"{model.name} needs {format_gib(memory.weights_bytes)} for its weights"
    if memory.kv_tokens >= max_length:
        return _Verdict(fits=True, reason=f"{weights}; {memory.kv_tokens} tokens of cache fit beside them, {have}.")
    ways = remedies(model, layout, max_length, accelerator, fleet, pool)
    if memory.weights_bytes >= memory.usable_bytes:
        return _Verdict(fits=False, reason=f"{weights}, and there are {have}.", remedies=ways)
    needed = format_gib(memory.kv_bytes_per_token * max_length)
    return _Verdict(
        fits=False,
        reason=f"{weights} and {needed} for one sequence of {max_length} tokens, and there are {have}.",
        remedies=ways,
    )


def _sequences(service: LLMService, memory: Memory | None, max_length: int, *, is_cpu: bool) -> int:
    """Sequences in the engine at once: what the spec says, else what fits."""
    batching, backend = service.spec.batching, service.spec.engine.backend
    if batching.mode is BatchingMode.NONE:
        return 1
    if batching.max_sequences is not None:
        return batching.max_sequences
    if memory is None or not max_length:
        return UNKNOWN_SEQUENCES
    planned = max_length if backend is Backend.TORCH else max(1, max_length // USUAL_LENGTH_DIVISOR)
    most = CPU_SEQUENCES if is_cpu else MOST_SEQUENCES[backend]
    return max(1, min(most, memory.kv_tokens // planned))


def _unknown_place(service: LLMService, pool: Pool | None, fleet: FleetDefaults) -> str:
    name = service.spec.placement.pool
    if pool is None:
        return f"There is no pool {name!r}: use one of {', '.join(sorted(fleet.pools)) or '(none)'}."
    return (
        f"Accelerator {pool.accelerator!r} of pool {name} is not in the catalogue "
        f"({', '.join(sorted(ACCELERATORS))}): set the pool's accelerator to one of these."
    )
