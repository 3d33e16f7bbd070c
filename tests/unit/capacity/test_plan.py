"""What fits, how much of it, and what to write when it does not."""

from __future__ import annotations

from typing import Any

import pytest

from llmservice.api.fleet import FleetDefaults
from llmservice.api.plan import CapacityPlan
from llmservice.api.service import LLMService
from llmservice.capacity.accelerators import accelerators
from llmservice.capacity.memory import CPU_PROCESS_BYTES, VLLM_CPU_BYTES
from llmservice.capacity.plan import plan
from llmservice.capacity.quantity import find_bytes

pytestmark = pytest.mark.unit
FLEET = FleetDefaults.model_validate(
    {
        "pools": {
            "cpu": {"memory": "8Gi"},
            "bare-cpu": {},
            "a100-40gb": {"accelerator": "a100-40gb"},
            "a100-80gb": {"accelerator": "A100-80GB"},
            "slice": {"accelerator": "a100-80gb-mig-1g.10gb"},
            "odd": {"accelerator": "abacus", "resource": "example.com/abacus"},
        }
    }
)


def planned(repo: str, pool: str, **spec: Any) -> CapacityPlan:
    model = {"source": {"huggingFace": {"repo": repo}}, **spec.pop("model", {})}
    full = {"model": model, "engine": {"backend": "vllm"}, "placement": {"pool": pool}, **spec}
    return plan(LLMService.parse({"metadata": {"name": "chat"}, "spec": full}), FLEET)


def test_a_token_of_llama_2_13b_takes_800_kib_in_half_precision() -> None:
    found = planned("meta-llama/Llama-2-13b-chat-hf", "a100-80gb")
    assert found.kv_bytes_per_token == 2 * 40 * 40 * 128 * 2 == 819_200
    assert found.weights_bytes == 13_015_864_320 * 2


def test_grouped_query_attention_stores_only_the_kv_heads() -> None:
    assert planned("meta-llama/Llama-3.1-8B-Instruct", "a100-80gb").kv_bytes_per_token == 131_072


def test_more_accelerators_than_kv_heads_repeat_heads() -> None:
    wide = planned("Qwen/Qwen2.5-7B-Instruct", "a100-40gb", engine={"backend": "vllm", "parallelism": {"tensor": 8}})
    assert wide.kv_bytes_per_token == 2 * 28 * 8 * 128 * 2
    assert wide.accelerators_per_replica == 8


def test_llama_2_13b_fits_one_a100_of_either_size() -> None:
    small = planned("meta-llama/Llama-2-13b-chat-hf", "a100-40gb")
    large = planned("meta-llama/Llama-2-13b-chat-hf", "a100-80gb")
    assert small.fits is True
    assert large.fits is True
    assert 4096 < small.kv_tokens < 20_000 < large.kv_tokens < 70_000
    assert small.max_sequences < large.max_sequences


def test_a_model_too_large_says_by_how_much_and_the_smallest_split_that_holds_it() -> None:
    found = planned("meta-llama/Llama-2-70b-chat-hf", "a100-80gb")
    assert found.fits is False
    assert "128.5 GiB for its weights" in found.reason
    assert found.remedies == (
        "Use an AWQ int4 copy of the model.",
        "Write spec.engine.parallelism.tensor: 2 (2 accelerators each).",
    )


def test_a_long_context_is_cured_without_more_hardware_first() -> None:
    found = planned("meta-llama/Llama-3.1-8B-Instruct", "a100-40gb", kvCache={"memoryPercent": 80})
    assert found.fits is False
    assert "131072 tokens" in found.reason
    assert found.remedies == (
        "Write spec.kvCache.memoryPercent: 95.",
        "Write spec.model.maxLength: 101888.",
        "Write spec.kvCache.dtype: fp8_e5m2.",
    )


def test_a_pool_that_is_large_enough_is_a_way_out() -> None:
    found = planned("meta-llama/Llama-2-13b-chat-hf", "slice")
    assert found.fits is False
    assert found.remedies == (
        "Write spec.placement.pool: a100-40gb, with 39.5 GiB per accelerator.",
        "Write spec.placement.pool: a100-80gb, with 79.2 GiB per accelerator.",
    )


@pytest.mark.parametrize("remedy", ["kvCache", "model", "placement"])
def test_each_remedy_really_helps(remedy: str) -> None:
    tight: dict[str, Any] = {"kvCache": {"memoryPercent": 70}}
    assert planned("meta-llama/Llama-3.1-8B-Instruct", "a100-40gb", **tight).fits is False
    cures: dict[str, dict[str, Any]] = {
        "kvCache": {"kvCache": {"memoryPercent": 70, "dtype": "fp8_e5m2"}},
        "model": {**tight, "model": {"maxLength": 65_536}},
        "placement": tight,
    }
    pool = "a100-80gb" if remedy == "placement" else "a100-40gb"
    assert planned("meta-llama/Llama-3.1-8B-Instruct", pool, **cures[remedy]).fits is True


def test_an_engine_is_not_split_over_mig_slices() -> None:
    engine = {"backend": "vllm", "parallelism": {"tensor": 2}}
    found = planned("meta-llama/Llama-3.2-1B", "slice", engine=engine)
    assert found.fits is False
    assert "MIG" in found.reason


@pytest.mark.parametrize(
    ("repo", "pool", "said"),
    [
        ("example/unheard-of", "a100-80gb", "not in the model catalogue"),
        ("meta-llama/Llama-3.2-1B", "bare-cpu", "write fleet.pools.bare-cpu.memory"),
        ("meta-llama/Llama-3.2-1B", "odd", "not in the catalogue"),
        ("meta-llama/Llama-3.2-1B", "nowhere", "There is no pool"),
    ],
)
def test_what_is_not_known_is_not_refused(repo: str, pool: str, said: str) -> None:
    found = planned(repo, pool)
    assert found.fits is None
    assert said in found.reason
    assert found.max_sequences == 8


def test_the_cpu_pool_counts_float32_and_needs_no_accelerator() -> None:
    found = planned("HuggingFaceTB/SmolLM2-135M-Instruct", "cpu", engine={"backend": "torch"})
    assert found.fits is True
    assert found.accelerators_per_replica == 0
    # The embeddings are the output layer too, which is laid out a second time for oneDNN.
    assert found.weights_bytes == (134_515_008 + 49_152 * 576) * 4
    assert found.max_sequences == 8


def test_vllm_on_a_processor_is_planned_with_its_three_processes() -> None:
    torch = planned("HuggingFaceTB/SmolLM2-135M-Instruct", "cpu", engine={"backend": "torch"})
    vllm = planned("HuggingFaceTB/SmolLM2-135M-Instruct", "cpu")
    repeated = 49_152 * 576 * 4
    assert vllm.memory is not None
    assert torch.memory is not None
    assert vllm.memory.context - torch.memory.context == VLLM_CPU_BYTES - CPU_PROCESS_BYTES > 2**30
    assert torch.weights_bytes - vllm.weights_bytes == repeated


def test_short_sequences_take_whole_blocks_which_are_long_in_vllm_on_a_processor() -> None:
    found = planned("HuggingFaceTB/SmolLM2-135M-Instruct", "cpu", model={"maxLength": 256})
    assert found.planned_length == 64
    assert found.kv_blocks == found.kv_tokens // 128
    assert found.fitting_sequences == found.kv_blocks - 1  # vLLM fills all but one
    on_gpu = planned("HuggingFaceTB/SmolLM2-135M-Instruct", "a100-40gb", model={"maxLength": 256})
    assert on_gpu.kv_blocks == on_gpu.kv_tokens // 16
    assert on_gpu.fitting_sequences == on_gpu.kv_blocks // 4


def test_a_memory_limit_tells_what_a_cpu_pool_does_not() -> None:
    template = {"resources": {"limits": {"memory": "4Gi"}}}
    found = planned("HuggingFaceTB/SmolLM2-135M-Instruct", "bare-cpu", template=template)
    assert found.fits is True
    assert found.usable_bytes < 4 * 2**30


@pytest.mark.parametrize(
    ("batching", "expected"),
    [({"mode": "None"}, 1), ({"maxSequences": 3}, 3), ({"mode": "Dynamic", "maxSequences": 5}, 5)],
)
def test_the_spec_decides_about_sequences_where_it_speaks(batching: dict[str, Any], expected: int) -> None:
    assert planned("meta-llama/Llama-3.2-1B", "a100-40gb", batching=batching).max_sequences == expected


def test_an_engine_that_reserves_whole_sequences_is_planned_for_fewer() -> None:
    torch = planned("meta-llama/Llama-2-13b-chat-hf", "a100-80gb", engine={"backend": "torch"})
    assert torch.max_sequences == torch.kv_tokens // 4096
    assert planned("meta-llama/Llama-2-13b-chat-hf", "a100-80gb").max_sequences > torch.max_sequences


@pytest.mark.parametrize("name", [name for name in accelerators() if "-mig-" in name])
def test_a_slice_has_less_memory_than_its_whole_and_a_resource_of_its_own(name: str) -> None:
    gpu, profile = name.split("-mig-")
    assert accelerators()[name].memory_bytes < accelerators()[gpu].memory_bytes
    assert accelerators()[name].resource == f"nvidia.com/mig-{profile}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("80Gi", 80 * 2**30),
        ("1.5G", 1_500_000_000),
        ("1e9", 10**9),
        ("0.3Gi", 322_122_547),
        ("100m", None),
        ("12", 12),
        ("80 GB", None),
        ("", None),
        ("-1Gi", None),
    ],
)
def test_memory_is_read_as_kubernetes_writes_it(text: str, expected: int | None) -> None:
    assert find_bytes(text) == expected
