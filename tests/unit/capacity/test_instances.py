"""Several engine instances on one accelerator: where their count may move, and what memory leaves each."""

from __future__ import annotations

from typing import Any

import pytest

from llmservice.api.plan import CapacityPlan
from llmservice.capacity.instances import count_moves, held_instances, instance_warnings, most_instances
from llmservice.capacity.kept import plan_beside_kept
from tests.unit.capacity.asked import asked, planned

pytestmark = pytest.mark.unit
LLAMA, POOL, SMALL = "meta-llama/Llama-2-7b-chat-hf", "a100-80gb", "a100-40gb"


def dynamic(most: int = 2, fewest: int = 1, **batching: Any) -> dict[str, Any]:
    """A service on the torch engine whose batches run to completion."""
    return {
        "engine": {"backend": "torch"},
        "batching": {"mode": "Dynamic", **batching},
        "tuning": {"bounds": {"engineInstances": {"min": fewest, "max": most}}},
    }


def most_of(spec: dict[str, Any], pool: str = POOL) -> int:
    return most_instances(asked(LLAMA, pool, **spec), planned(LLAMA, pool, **spec))


@pytest.mark.parametrize(
    ("spec", "moves"),
    [
        (dynamic(), True),
        (dynamic(mode="Static"), True),
        (dynamic(mode="None"), True),
        (dynamic(mode="Continuous"), False),
        ({**dynamic(), "engine": {"backend": "vllm"}}, False),
        ({**dynamic(), "engine": {"backend": "torch", "parallelism": {"tensor": 2}}}, False),
    ],
    ids=["dynamic", "static", "none", "continuous", "vllm", "split"],
)
def test_the_count_moves_where_batches_run_to_completion_on_one_accelerator(spec: dict[str, Any], moves: bool) -> None:
    assert count_moves(asked(LLAMA, POOL, **spec)) is moves
    assert most_of(spec) == (2 if moves else 1)


def test_instances_share_the_memory_evenly_and_as_many_fit_as_were_planned() -> None:
    alone, shared = planned(LLAMA, POOL, **dynamic(1)), planned(LLAMA, POOL, **dynamic(2))
    assert 1 < shared.max_sequences < alone.max_sequences / 2, "each has the weights, too"
    assert shared.instances_with(shared.max_sequences) == 2
    assert alone.instances_with(alone.max_sequences) == 1
    assert shared.kv_tokens < alone.kv_tokens
    assert "Memory is planned for 2 engine instances" in shared.reason
    assert any(gain.field_path == "spec.tuning.bounds.engineInstances.max" for gain in shared.gains)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_all_instances_together_fit_into_what_engines_may_take(most: int) -> None:
    found = planned(LLAMA, POOL, **dynamic(most))
    assert most * (found.engine_bytes + found.max_sequences * found.sequence_bytes) <= found.budget_bytes
    assert most * (found.engine_bytes + (found.max_sequences + 1) * found.sequence_bytes) > found.budget_bytes


def test_sequences_that_were_asked_for_come_before_instances() -> None:
    assert most_of(dynamic(2, maxSequences=4)) == 2
    assert most_of(dynamic(2, maxSequences=20)) == 1
    crowded = planned(LLAMA, POOL, **dynamic(2, maxSequences=20))
    assert (crowded.max_sequences, crowded.fits) == (20, True)


def test_what_memory_does_not_hold_is_a_warning_with_the_batch_that_would() -> None:
    spec = dynamic(2, maxSequences=20)
    (warning,) = instance_warnings(asked(LLAMA, POOL, **spec), planned(LLAMA, POOL, **spec))
    assert warning.field_path == "spec.tuning.bounds.engineInstances.max"
    assert "1 of 2 engine instances with 20 sequences each" in warning.message
    fewer = int(warning.remedy.partition("maxSequences: ")[2].partition(",")[0])
    assert most_of(dynamic(2, maxSequences=fewer)) == 2
    assert most_of(dynamic(2, maxSequences=fewer + 1)) == 1
    enough = dynamic(2, maxSequences=4)
    assert instance_warnings(asked(LLAMA, POOL, **enough), planned(LLAMA, POOL, **enough)) == ()


def test_a_pool_too_small_for_two_is_said_to_be() -> None:
    spec = dynamic(2, mode="None")
    assert (most_of(spec), most_of(spec, SMALL)) == (2, 1)
    small = planned(LLAMA, SMALL, **spec)
    assert small.fits is True
    (warning,) = instance_warnings(asked(LLAMA, SMALL, **spec), small)
    assert warning.remedy == "Write max: 1, or a larger pool."


def test_the_fewest_must_fit_and_else_fewer_are_the_first_remedy() -> None:
    refused = planned(LLAMA, SMALL, **dynamic(2, fewest=2))
    assert refused.fits is False
    assert refused.remedies[0] == "Write spec.tuning.bounds.engineInstances.min: 1."


def test_a_count_that_memory_no_longer_holds_is_given_up_and_one_that_nobody_knows_of_is_kept() -> None:
    spec = dynamic(2, maxSequences=20)
    service = asked(LLAMA, POOL, **spec)
    assert held_instances(service, planned(LLAMA, POOL, **spec), 2) == 1
    unknown = CapacityPlan(POOL, "A100-80GB", 1, max_sequences=20, max_length=0)
    assert held_instances(service, unknown, 2) == 2
    assert most_instances(service, unknown) == 1, "and no other is added"
    continuous = dynamic(2, mode="Continuous")
    assert held_instances(asked(LLAMA, POOL, **continuous), planned(LLAMA, POOL, **continuous), 2) == 1


def test_pods_that_serve_keep_their_sequences_when_another_instance_is_allowed() -> None:
    alone, service = planned(LLAMA, POOL, **dynamic(1)), asked(LLAMA, POOL, **dynamic(2))
    kept = plan_beside_kept(service, planned(LLAMA, POOL, **dynamic(2)), alone.max_sequences)
    assert kept.max_sequences == alone.max_sequences
    assert most_instances(service, kept) == 1
    (warning,) = instance_warnings(service, kept)
    assert "new pods take" in warning.remedy
