"""Engine instances of one replica: where their count may move, and how many the accelerator's memory holds."""

from __future__ import annotations

from llmservice.api.batching import BatchingMode
from llmservice.api.engine import Backend, Driver
from llmservice.api.findings import Finding
from llmservice.api.plan import CapacityPlan
from llmservice.api.service import LLMService
from llmservice.capacity.case import Case


def count_moves(service: LLMService) -> bool:
    """Whether another instance may pay, so that the count may be more than the fewest.

    Batches that run to completion leave the accelerator idle between them. In `Continuous` one engine has all sequences
    in every step: a second one reads the weights again, for a part of them. vLLM takes a share of the accelerator's
    memory for each instance and, while one starts, counts what others take meanwhile as its own. An engine that is
    split over accelerators has all of them.
    """
    engine = service.spec.engine
    alone = engine.parallelism.accelerators == 1
    return (
        engine.backend is Backend.TORCH
        and engine.driver is Driver.NATIVE
        and alone
        and service.spec.batching.mode is not BatchingMode.CONTINUOUS
    )


def instances_planned(service: LLMService, case: Case) -> int:
    """For how many instances the memory of `case`, which is of one alone, is planned.

    The most that may run and fit, each with the sequences that the spec asks for, or with one of the longest where the
    plan is to say how many; the fewest in any case. vLLM takes `memoryPercent` for each.
    """
    bounds = service.spec.tuning.bounds.engine_instances
    if service.spec.engine.backend is not Backend.TORCH:
        return 1
    if not count_moves(service):
        return bounds.min
    batching = service.spec.batching
    sequences = 1 if batching.mode is BatchingMode.NONE else batching.max_sequences or 1
    each = case.memory.engine_bytes + sequences * case.longest_bytes
    return max(bounds.min, min(bounds.max, case.layout.whole_budget_bytes // max(1, each)))


def most_instances(service: LLMService, plan: CapacityPlan) -> int:
    """Most instances that the tuner may give a replica, each with all its sequences at their longest.

    The fewest where the count does not move, or where nobody knows what fits.
    """
    bounds = service.spec.tuning.bounds.engine_instances
    if not count_moves(service):
        return bounds.min
    return max(bounds.min, min(bounds.max, plan.instances_with(plan.max_sequences)))


def held_instances(service: LLMService, plan: CapacityPlan, instances: int) -> int:
    """`instances` within what spec and memory allow now; within the spec alone where nobody knows what fits."""
    bounds = service.spec.tuning.bounds.engine_instances
    known = plan.engine_bytes > 0 or not count_moves(service)
    return max(bounds.min, min(most_instances(service, plan) if known else bounds.max, instances))


def instance_warnings(service: LLMService, plan: CapacityPlan) -> tuple[Finding, ...]:
    """What memory does not leave of the spec's bounds: fewer instances than they allow."""
    most, sequences = service.spec.tuning.bounds.engine_instances.max, plan.max_sequences
    fitting = most_instances(service, plan)
    if not count_moves(service) or not plan.engine_bytes or fitting >= most:
        return ()
    fewer = (plan.budget_bytes // most - plan.engine_bytes) // max(1, plan.sequence_bytes)
    remedy = f"batching.maxSequences: {fewer}, which new pods take" if 1 <= fewer < sequences else "a larger pool"
    return (
        Finding(
            "plan-instances",
            "spec.tuning.bounds.engineInstances.max",
            f"Memory holds {fitting} of {most} engine instances with {sequences} sequences each, so the tuner goes no "
            "further.",
            f"Write max: {fitting}, or {remedy}.",
        ),
    )
