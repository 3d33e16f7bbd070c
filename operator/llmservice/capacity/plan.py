"""Service + fleet → the capacity plan: does it fit, how many sequences at once, and what would change it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from llmservice.api.batching import BatchingMode
from llmservice.api.engine import Backend
from llmservice.api.fleet import EngineImage, FleetDefaults, Pool
from llmservice.api.model import Dtype
from llmservice.api.operations import KvCacheDtype
from llmservice.api.plan import CapacityPlan, LengthFit, MemoryUse
from llmservice.api.service import LLMService
from llmservice.capacity.accelerators import Accelerator, find_accelerator
from llmservice.capacity.architecture import Model
from llmservice.capacity.case import Case
from llmservice.capacity.extras import extras_of
from llmservice.capacity.gains import gains
from llmservice.capacity.instances import instances_planned
from llmservice.capacity.kv_dtypes import kv_bytes, kv_scale_bytes, offered_kv_dtypes
from llmservice.capacity.limits import (
    QUOTA_CODE,
    is_overridden,
    node_problem,
    notes,
    problems,
    quantization_in_force,
    quota_problem,
)
from llmservice.capacity.memory import Layout, Memory, sequence_bytes
from llmservice.capacity.models import find_model, source_name
from llmservice.capacity.pools import unknown_pool_words
from llmservice.capacity.quantity import find_bytes, format_gib
from llmservice.capacity.remedies import remedies, smallest_pool
from llmservice.capacity.sharing import memory_share, sharing_note, sharing_problems
from llmservice.repository.images import triton_version_of

UNKNOWN_SEQUENCES: Final = 8
"""Where the memory is not known: enough to batch, little enough for a small device."""

CPU_SEQUENCES: Final = 8
"""On a CPU, arithmetic and not memory is the limit: a larger batch only makes every token later."""

MOST_SEQUENCES: Final = {Backend.TORCH: 64, Backend.VLLM: 256, Backend.TENSORRTLLM: 256}

STEP_TOKENS: Final = {Backend.TORCH: 2048, Backend.VLLM: 8192, Backend.TENSORRTLLM: 8192}
"""Tokens of one step where the spec does not say: each backend's own default."""

SHOWN_LENGTHS: Final = (512, 2048, 8192, 32_768, 131_072)
_DTYPE_BYTES: Final = {Dtype.FLOAT32: 4, Dtype.FLOAT16: 2, Dtype.BFLOAT16: 2}


@dataclass(frozen=True)
class _Verdict:
    """Whether it fits, and why in words."""

    fits: bool | None
    reason: str
    remedies: tuple[str, ...] = ()


def plan(service: LLMService, fleet: FleetDefaults, model: Model | None = None) -> CapacityPlan:
    """What one replica of `service` holds on its pool. `model` is what its files say, where somebody has read them.

    `fits` is None, with the reason, where model, accelerator or memory is not known; then nothing is refused and the
    first load tells. `max_length` is 0 where neither the spec nor the catalogue says it: the engine reads the model's
    files. Raises nothing: an unknown pool is a plan that says so.
    """
    spec = service.spec
    pool = fleet.pools.get(spec.placement.pool)
    accelerator = find_accelerator(pool.accelerator) if pool else None
    model = model or find_model(spec.model.source)
    is_cpu = accelerator.is_cpu if accelerator else (pool.resource == "" if pool else False)
    max_length = spec.model.max_length or (model.max_length if model else 0)
    blank = CapacityPlan(
        pool=spec.placement.pool,
        accelerator=accelerator.name if accelerator else (pool.accelerator if pool else ""),
        accelerators_per_replica=0 if is_cpu else spec.engine.parallelism.accelerators,
        max_sequences=_sequences(service, None, is_cpu=is_cpu),
        max_length=max_length,
        model=model.name if model else source_name(spec.model.source),
        nodes=spec.engine.parallelism.nodes,
    )
    if pool is None or accelerator is None:
        return replace(blank, reason=_unknown_place(service, pool, fleet))
    default = fleet.images.get(spec.engine.backend, EngineImage(image="")).triton_version
    version = triton_version_of(spec.engine.image or "") or default
    found = problems(service, accelerator, model, version)
    found += node_problem(service, pool, blank.accelerators_per_pod)
    found += tuple(sharing_problems(service, pool.sharing, blank.accelerators_per_replica))
    found += quota_problem(service, pool, blank.accelerators_per_replica)
    blank = replace(blank, problems=found)
    # Somebody may know a model better than a catalogue; a quota is the platform team's.
    binding = [one for one in found if one.code == QUOTA_CODE] if is_overridden(service) else found
    if binding:
        said = " ".join(f"{finding.field_path}: {finding.message}" for finding in binding)
        remedy = tuple(finding.remedy for finding in binding if finding.remedy)
        blank = replace(blank, fits=False, reason=said, remedies=remedy)
    if model is None:
        unknown = f"{blank.model} is not in the model catalogue: the first load tells."
        return blank if found else replace(blank, reason=unknown)
    layout = _layout(service, pool, accelerator, model, version)
    case = Case(model, layout, accelerator, max_length, spec.placement.pool)
    case = case.changed(instances=instances_planned(service, case))
    if not case.layout.memory_bytes:
        reason = _unknown_memory(spec.placement.pool, is_cpu=is_cpu)
        return blank if found else replace(_with_figures(blank, service, case), kv_tokens=0, reason=reason)
    full = _with_figures(blank, service, case)
    if blank.fits is False:
        return full
    offered = offered_kv_dtypes(spec.engine.backend, accelerator, case.layout.quantization, version)
    verdict = _judge(service, fleet, case, offered)
    return replace(
        full,
        fits=verdict.fits,
        reason=verdict.reason,
        remedies=verdict.remedies,
        gains=gains(case, offered),
        smallest_pool=smallest_pool(case, fleet),
    )


def _layout(service: LLMService, pool: Pool, accelerator: Accelerator, model: Model, version: str) -> Layout:
    spec = service.spec
    limit = {**pool.template.resources.limits, **spec.template.resources.limits}.get("memory")
    stated = pool.memory or (limit if accelerator.is_cpu else None)
    # `auto` is 16 bits on accelerators and, since the torch engine computes in it, 32 on CPUs.
    dtype_bytes = _DTYPE_BYTES.get(spec.model.dtype, 4 if accelerator.is_cpu else 2)
    return Layout(
        memory_bytes=memory_share(pool.sharing, (find_bytes(stated) or 0) if stated else accelerator.memory_bytes),
        memory_percent=spec.kv_cache.memory_percent,
        dtype_bytes=dtype_bytes,
        kv_bytes=kv_bytes(spec.kv_cache.dtype, dtype_bytes),
        quantization=quantization_in_force(service, model),
        parallelism=spec.engine.parallelism,
        backend=spec.engine.backend,
        kv_scale_bytes=kv_scale_bytes(spec.kv_cache.dtype, spec.engine.backend),
        step_tokens=spec.batching.max_batch_tokens or STEP_TOKENS[spec.engine.backend],
        is_cpu=accelerator.is_cpu,
        extras=extras_of(service, version),
    )


def _with_figures(blank: CapacityPlan, service: LLMService, case: Case) -> CapacityPlan:
    """`blank` with every number, and without a verdict."""
    layout, memory = case.layout, case.memory
    most = _sequences(service, case, is_cpu=layout.is_cpu)
    tokens = case.tokens
    blocks = tokens // layout.block_tokens
    wanted = most * -(-case.max_length // layout.block_tokens)
    whole_use = layout.accelerators
    twice = memory.held_bytes + memory.context_bytes
    return replace(
        blank,
        max_sequences=most,
        weights_bytes=memory.total_weights_bytes,
        kv_bytes_per_token=memory.kv_token_bytes * whole_use,
        kv_tokens=tokens,
        usable_bytes=whole_use * max(0, layout.budget_bytes - memory.overhead_bytes),
        dtype=_dtype(service, case).value,
        quantization=layout.quantization.value,
        kv_dtype=service.spec.kv_cache.dtype.value,
        memory=_use(layout, memory),
        planned_length=case.planned_length,
        fitting_sequences=case.sequences,
        sequences_by_length=_by_length(case),
        kv_blocks=min(wanted, blocks) if layout.backend is Backend.TORCH else blocks,
        instances=_instances(case),
        engine_bytes=memory.engine_bytes if layout.memory_bytes else 0,
        sequence_bytes=case.longest_bytes,
        budget_bytes=layout.whole_budget_bytes,
        reload_fits=layout.memory_bytes - layout.whole_budget_bytes >= twice if layout.memory_bytes else None,
        reload_percent=max(0, (layout.memory_bytes - twice) * 100 // layout.memory_bytes) if layout.memory_bytes else 0,
    )


def _dtype(service: LLMService, case: Case) -> Dtype:
    """What it computes in."""
    asked = service.spec.model.dtype
    if asked is not Dtype.AUTO:
        return asked
    return Dtype.FLOAT32 if case.layout.dtype_bytes == 4 else case.model.dtype


def _use(layout: Layout, memory: Memory) -> MemoryUse | None:
    if not layout.memory_bytes:
        return None
    return MemoryUse(
        weights=memory.weights_bytes,
        context=memory.context_bytes,
        communication=memory.communication_bytes,
        activations=memory.activation_bytes,
        graphs=memory.graph_bytes,
        reserve=memory.reserve_bytes,
        kv_cache=memory.kv_budget_bytes,
        outside=layout.memory_bytes - layout.budget_bytes,
        adapters=memory.adapter_bytes,
        draft=memory.draft_bytes,
    )


def _by_length(case: Case) -> tuple[LengthFit, ...]:
    lengths = sorted({length for length in SHOWN_LENGTHS if length < case.max_length} | {case.max_length})
    return tuple(LengthFit(length, case.sequences_of(length)) for length in lengths)


def _instances(case: Case) -> int:
    """Engine instances that fit beside each other, each a process with its own weights and one longest sequence."""
    return case.layout.whole_budget_bytes // max(1, case.memory.engine_bytes + case.longest_bytes)


def _judge(service: LLMService, fleet: FleetDefaults, case: Case, offered: tuple[KvCacheDtype, ...]) -> _Verdict:
    """Fits when one sequence of the maximum length does, beside the weights."""
    layout, model = case.layout, case.model
    memory = case.memory
    usable = layout.accelerators * max(0, layout.budget_bytes - memory.overhead_bytes)
    place = (
        f"pool {case.pool}" if layout.is_cpu else f"pool {case.pool}, {layout.accelerators} x {case.accelerator.name}"
    )
    have = f"{format_gib(usable)} usable on {place}"
    weights = f"{model.name} needs {format_gib(memory.total_weights_bytes)} for its weights"
    beside = layout.accelerators * memory.adapter_bytes + layout.tensor * memory.draft_bytes
    if beside:
        weights += f", {format_gib(beside)} for adapters and proposing model"
    shared = sharing_note(fleet.pools[case.pool].sharing, layout.accelerators)
    beside_it = (*shared, *_instances_note(layout), *_not_counted(layout))
    said = " ".join([*notes(service, case.accelerator, layout.quantization), *beside_it])
    if case.fits:
        told = f"{weights}; {case.tokens} tokens of cache fit beside them, {have}."
        return _Verdict(fits=True, reason=f"{told} {said}".strip())
    ways = remedies(case, fleet, offered)
    if memory.kv_budget_bytes == 0:
        reason = f"{weights}, and there are {have}."
    else:
        needed = format_gib(sequence_bytes(model, layout, case.max_length) * layout.accelerators)
        reason = f"{weights} and {needed} for one sequence of {case.max_length} tokens, and there are {have}."
    if is_overridden(service):
        return _Verdict(None, f"{reason} It is started all the same: its annotation asks for it.", ways)
    return _Verdict(fits=False, reason=reason, remedies=ways)


def _instances_note(layout: Layout) -> tuple[str, ...]:
    """Whose the figures are, where several engine instances may run beside each other."""
    if layout.instances == 1:
        return ()
    return (f"Memory is planned for {layout.instances} engine instances, and cache and sequences are those of one.",)


def _not_counted(layout: Layout) -> tuple[str, ...]:
    """What takes memory that nobody knows here."""
    if layout.extras.is_counted:
        return ()
    named = layout.extras.draft_repo
    remedy = f"speculative.repo {named} is not among them" if named else "write one as speculative.repo"
    return (f"The draft model is not counted: its shape is that of a repository of the catalogue, and {remedy}.",)


def _sequences(service: LLMService, case: Case | None, *, is_cpu: bool) -> int:
    """Sequences in the engine at once: what the spec says, else what fits."""
    batching, backend = service.spec.batching, service.spec.engine.backend
    if batching.mode is BatchingMode.NONE:
        return 1
    if batching.max_sequences is not None:
        return batching.max_sequences
    if case is None or not case.max_length or not case.layout.memory_bytes:
        return UNKNOWN_SEQUENCES
    most = CPU_SEQUENCES if is_cpu else MOST_SEQUENCES[backend]
    return max(1, min(most, case.sequences))


def _unknown_memory(pool: str, *, is_cpu: bool) -> str:
    """Where to say how much memory there is."""
    limit = ", or spec.template.resources.limits.memory" if is_cpu else ""
    return (
        f"Pool {pool} does not say how much memory it has: write fleet.pools.{pool}.memory, such as 8Gi, into the "
        f"chart's values (pools.{pool}.memory in the file of `llmservice plan --fleet FILE`){limit}."
    )


def _unknown_place(service: LLMService, pool: Pool | None, fleet: FleetDefaults) -> str:
    name = service.spec.placement.pool
    if pool is None:
        return unknown_pool_words(name, fleet)
    return f"Accelerator {pool.accelerator!r} of pool {name} is not in the catalogue: set it to one that is."
