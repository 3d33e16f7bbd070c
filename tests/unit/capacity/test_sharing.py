"""Shared GPUs: refused where they cannot carry a replica, planned and warned of where they can; and node sizes."""

from __future__ import annotations

from typing import Any

import pytest

from llmservice.api.plan import CapacityPlan
from llmservice.capacity.limits import OVERRIDE_ANNOTATION
from tests.unit.capacity.asked import EVERYTHING, planned

pytestmark = pytest.mark.unit
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


def on(pool: dict[str, Any], annotations: dict[str, str] | None = None, **spec: Any) -> CapacityPlan:
    fleet = EVERYTHING.model_validate({"pools": {"gpu": {"accelerator": "a100-80gb", **pool}}})
    return planned(LLAMA, "gpu", fleet, annotations=annotations, **spec)


def shared(strategy: str, replicas: int) -> dict[str, Any]:
    return {"sharing": {"strategy": strategy, "replicas": replicas}}


PAIR: dict[str, Any] = {"engine": {"backend": "vllm", "parallelism": {"tensor": 2}}}


@pytest.mark.parametrize(
    ("strategy", "why"),
    [("TimeSlicing", "may get the same GPU twice"), ("MPS", "is refused by the device plugin")],
)
def test_a_replica_is_not_split_over_shared_gpus(strategy: str, why: str) -> None:
    found = on(shared(strategy, 2), kvCache={"memoryPercent": 40}, **PAIR)
    assert found.fits is False
    assert [problem.code for problem in found.problems] == ["plan-shared-split"]
    assert why in found.reason
    assert "pool of GPUs that are not shared" in found.remedies[0]


def test_a_time_sliced_gpu_is_not_taken_whole() -> None:
    found = on(shared("TimeSlicing", 4))
    assert found.fits is False
    assert [problem.field_path for problem in found.problems] == ["spec.kvCache.memoryPercent"]
    assert found.remedies == ("Write at most 25, or placement.pool: a pool of GPUs or MIG slices that are not shared.",)


def test_a_part_of_a_time_sliced_gpu_works_and_warns() -> None:
    found = on(shared("TimeSlicing", 2), kvCache={"memoryPercent": 50})
    assert found.fits is True
    assert "nothing keeps one from the memory of another" in found.reason


def test_mps_divides_the_memory_that_is_planned_with() -> None:
    whole, half = on({}), on(shared("MPS", 2))
    assert half.fits is True
    assert half.usable_bytes < whole.usable_bytes / 2
    assert "MPS shares each GPU between 2 pods" in half.reason
    assert on(shared("MPS", 8)).fits is False


def test_somebody_may_know_better() -> None:
    assert on(shared("TimeSlicing", 4), {OVERRIDE_ANNOTATION: "true"}).fits is True


def test_a_replica_larger_than_a_node_is_told_before_a_pod_exists() -> None:
    found = on({"acceleratorsPerNode": 4}, engine={"backend": "vllm", "parallelism": {"tensor": 8}})
    assert found.fits is False
    assert [problem.code for problem in found.problems] == ["plan-node-size"]
    assert "8 accelerators of one node, and the largest of pool gpu has 4" in found.reason
    assert on({"acceleratorsPerNode": 8}, engine={"backend": "vllm", "parallelism": {"tensor": 8}}).fits is True


def test_an_annotation_lifts_no_quota() -> None:
    found = on({"quota": {"*": 1}}, {OVERRIDE_ANNOTATION: "true"}, replicas=2)
    assert found.fits is False
    assert found.reason.startswith(
        "spec.replicas: 2 replicas of 1 accelerators are 2, and namespace default may take 1"
    )
