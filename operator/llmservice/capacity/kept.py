"""The capacity plan of a revision that stands: what its pods were started with holds, whatever a plan says today."""

from __future__ import annotations

from dataclasses import replace

from llmservice.api.batching import BatchingMode
from llmservice.api.plan import CapacityPlan
from llmservice.api.service import LLMService
from llmservice.capacity.instances import count_moves
from llmservice.capacity.plan import UNKNOWN_SEQUENCES


def plan_of_kept(service: LLMService, refused: CapacityPlan, sequences: int | None) -> CapacityPlan:
    """`refused`, with what its pods take at once: `sequences`, as they were started with; None where nobody knows.

    A plan that has room for nothing counts one sequence, and its slots would be brought to engines that serve more.
    """
    batching = service.spec.batching
    if batching.mode is BatchingMode.NONE or batching.max_sequences is not None:
        return refused
    return replace(refused, max_sequences=sequences or max(UNKNOWN_SEQUENCES, refused.max_sequences))


def plan_beside_kept(service: LLMService, planned: CapacityPlan, sequences: int | None) -> CapacityPlan:
    """`planned`, with at least the `sequences` that its pods were started with, where it plans for several instances.

    Room for another instance is taken from the cache of the first, and pods that serve keep the cache they have.
    """
    if service.spec.batching.max_sequences is not None or sequences is None or not count_moves(service):
        return planned
    return replace(planned, max_sequences=max(sequences, planned.max_sequences))
