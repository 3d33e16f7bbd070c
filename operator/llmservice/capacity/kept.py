"""The capacity plan of a revision that a plan once let through, and that today's would refuse."""

from __future__ import annotations

from dataclasses import replace

from llmservice.api.batching import BatchingMode
from llmservice.api.plan import CapacityPlan
from llmservice.api.service import LLMService
from llmservice.capacity.plan import UNKNOWN_SEQUENCES


def plan_of_kept(service: LLMService, refused: CapacityPlan, sequences: int | None) -> CapacityPlan:
    """`refused`, with what its pods take at once: `sequences`, as they were started with; None where nobody knows.

    A plan that has room for nothing counts one sequence, and its slots would be brought to engines that serve more.
    """
    batching = service.spec.batching
    if batching.mode is BatchingMode.NONE or batching.max_sequences is not None:
        return refused
    return replace(refused, max_sequences=sequences or max(UNKNOWN_SEQUENCES, refused.max_sequences))
