"""What is impossible is told before a pod exists, with what to write instead."""

from __future__ import annotations

from typing import Any

import pytest

from llmservice.api.engine import Backend
from llmservice.api.fleet import EngineImage, FleetDefaults
from llmservice.capacity.accelerators import accelerators
from llmservice.capacity.kv_dtypes import offered_kv_dtypes, vllm_version
from llmservice.capacity.limits import OVERRIDE_ANNOTATION
from llmservice.capacity.quantization import Quantization
from tests.unit.capacity.asked import EVERYTHING, planned

pytestmark = pytest.mark.unit
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
TRT = {"backend": "tensorrtllm", "driver": "Nvidia"}


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        ("a100-80gb-mig-9g.1gb", "a100-80gb has no MIG profile '9g.1gb': use one of 1g.10gb, "),
        ("a100-40gb-mig-3g.40gb", "a100-40gb has no MIG profile '3g.40gb': use one of 1g.5gb, "),
        ("l4-mig-1g.5gb", "l4 cannot be cut into MIG slices: use pool l4"),
    ],
)
def test_a_mig_profile_that_the_gpu_lacks(pool: str, said: str) -> None:
    assert said in planned(LLAMA, pool).reason


BAD: list[tuple[str, str, dict[str, Any], str, str, str]] = [
    # id, repository, spec, field, message, remedy
    (
        "tensor-of-heads",
        LLAMA,
        {"engine": {"backend": "vllm", "parallelism": {"tensor": 3}}},
        "spec.engine.parallelism.tensor",
        "32 heads and 8 KV heads, which 3 accelerators cannot share evenly",
        "Write one of 1, 2, 4, 8, 16.",
    ),
    (
        "tensor-of-kv-heads",
        "microsoft/phi-4",
        {"engine": {"backend": "vllm", "parallelism": {"tensor": 4}}},
        "spec.engine.parallelism.tensor",
        "40 heads and 10 KV heads, which 4 accelerators",
        "Write one of 1, 2, 5, 10.",
    ),
    (
        "pipeline-of-layers",
        "meta-llama/Llama-3.2-1B",
        {"engine": {"backend": "vllm", "parallelism": {"pipeline": 32}}},
        "spec.engine.parallelism.pipeline",
        "16 layers, fewer than 32 stages",
        "Write at most 16.",
    ),
    (
        "quantised-in-float32",
        "Qwen/Qwen2.5-7B-Instruct-AWQ",
        {"model": {"dtype": "float32"}},
        "spec.model.dtype",
        "AWQ int4 weights are computed in 16 bits, not in float32",
        "Write dtype: auto, float16 or bfloat16.",
    ),
    (
        "plain-awq-in-bfloat16",
        "Qwen/Qwen2.5-7B-Instruct-AWQ",
        {"model": {"dtype": "bfloat16"}, "engine": {"backend": "vllm", "parameters": {"quantization": "awq"}}},
        "spec.model.dtype",
        "plain awq kernels compute in float16 only",
        "awq_marlin",
    ),
    (
        "quantised-on-torch",
        "Qwen/Qwen2.5-7B-Instruct-AWQ",
        {"engine": {"backend": "torch"}},
        "spec.model.source",
        "The torch engine reads no AWQ int4 weights",
        "engine.backend: vllm",
    ),
    (
        "fp8-weights-on-a100",
        "Qwen/Qwen3-8B-FP8",
        {"engine": TRT},
        "spec.placement.pool",
        "a100-80gb does not multiply fp8",
        "a pool of Ada or Hopper GPUs",
    ),
    (
        "e4m3-on-a100",
        LLAMA,
        {"kvCache": {"dtype": "fp8_e4m3"}},
        "spec.kvCache.dtype",
        "vllm of Triton 2.71.0 keeps no fp8_e4m3 cache on a100-80gb",
        "Write one of Auto, fp8_e5m2.",
    ),
    (
        "fp8-cache-of-tensorrtllm-on-a100",
        LLAMA,
        {"engine": TRT | {"tensorrtllm": {"runtime": "Engine"}}, "kvCache": {"dtype": "fp8_e4m3"}},
        "spec.kvCache.dtype",
        "tensorrtllm of Triton 2.71.0 keeps no fp8_e4m3 cache on a100-80gb",
        "Write one of Auto, int8.",
    ),
    (
        "int8-cache-of-the-llm-api",
        LLAMA,
        {"engine": TRT, "kvCache": {"dtype": "int8"}},
        "spec.kvCache.dtype",
        "tensorrtllm of Triton 2.71.0 keeps no int8 cache on a100-80gb",
        "Write Auto.",
    ),
    (
        "an-engine-built-for-another-gpu",
        LLAMA,
        {"engine": TRT | {"tensorrtllm": {"runtime": "Engine", "engine": {"computeCapability": "9.0"}}}},
        "spec.engine.tensorrtllm.engine.computeCapability",
        "The engine was built for compute capability 9.0, and a100-80gb has 8.0",
        "Build it on a100-80gb, or write a pool of GPUs with 9.0, such as h",
    ),
    (
        "a-stock-backend-on-a-processor",
        "HuggingFaceTB/SmolLM2-135M-Instruct",
        {"engine": {"backend": "vllm", "driver": "Nvidia"}, "placement": {"pool": "cpu"}},
        "spec.placement.pool",
        "The stock vllm backend in NVIDIA's images computes on GPUs only",
        "engine.driver: Native",
    ),
    (
        "e5m2-beside-quantised-weights",
        "Qwen/Qwen2.5-7B-Instruct-AWQ",
        {"kvCache": {"dtype": "fp8_e5m2"}},
        "spec.kvCache.dtype",
        "beside AWQ int4 weights",
        "Write Auto.",
    ),
    (
        "longer-than-the-model",
        "meta-llama/Llama-2-13b-chat-hf",
        {"model": {"maxLength": 8192}},
        "spec.model.maxLength",
        "8192 is above the 4096 positions",
        "Write at most 4096",
    ),
]


@pytest.mark.parametrize(
    ("repo", "spec", "field", "said", "remedy"), [case[1:] for case in BAD], ids=[case[0] for case in BAD]
)
def test_what_cannot_work_says_where_why_and_what_instead(
    repo: str, spec: dict[str, Any], field: str, said: str, remedy: str
) -> None:
    found = planned(repo, "a100-80gb", **spec)
    assert found.fits is False
    assert [problem.field_path for problem in found.problems] == [field]
    assert said in found.reason
    assert any(remedy in text for text in found.remedies)


def test_an_engine_is_not_split_over_slices() -> None:
    found = planned(
        "meta-llama/Llama-3.2-1B", "a100-80gb-mig-1g.10gb", engine={"backend": "vllm", "parallelism": {"tensor": 2}}
    )
    assert found.fits is False
    assert [problem.code for problem in found.problems] == ["plan-mig-split"]


def test_the_annotation_starts_it_all_the_same() -> None:
    override = {OVERRIDE_ANNOTATION: "true"}
    long = planned("meta-llama/Llama-2-13b-chat-hf", "a100-80gb", annotations=override, model={"maxLength": 8192})
    assert long.fits is True
    large = planned("meta-llama/Llama-2-70b-chat-hf", "a100-80gb", annotations=override)
    assert large.fits is None
    assert "its annotation asks for it" in large.reason


def test_fp8_weights_on_an_a100_work_on_vllm_and_say_what_they_do_not_buy() -> None:
    found = planned("Qwen/Qwen3-8B-FP8", "a100-80gb")
    assert found.fits is True
    assert "saves memory but no time" in found.reason


@pytest.mark.parametrize(
    ("triton", "vllm"),
    [("2.49.0", (0, 5, 0)), ("2.60.1", (0, 9, 2)), ("2.71.0", (0, 24, 0)), ("2.99.0", (0, 24, 0)), ("odd", (0, 5, 0))],
)
def test_the_vllm_in_an_image_follows_from_its_triton(triton: str, vllm: tuple[int, int, int]) -> None:
    assert vllm_version(triton) == vllm


@pytest.mark.parametrize(
    ("backend", "gpu", "triton", "offered"),
    [
        (Backend.VLLM, "a100-80gb", "2.51.0", ["fp8_e4m3", "fp8_e5m2"]),
        (Backend.VLLM, "a100-80gb", "2.71.0", ["fp8_e5m2"]),
        (Backend.VLLM, "h100-80gb", "2.71.0", ["fp8_e4m3", "fp8_e5m2"]),
        (Backend.TENSORRTLLM, "a100-80gb", "2.71.0", ["int8"]),
        (Backend.TENSORRTLLM, "l40s", "2.71.0", ["fp8_e4m3", "int8"]),
        (Backend.TORCH, "cpu", "2.71.0", ["fp8_e4m3"]),
        (Backend.VLLM, "cpu", "2.71.0", []),
    ],
)
def test_what_a_version_can_keep_is_offered(backend: Backend, gpu: str, triton: str, offered: list[str]) -> None:
    found = offered_kv_dtypes(backend, accelerators()[gpu], Quantization.NONE, triton)
    assert [dtype.value for dtype in found] == offered


def test_an_older_image_keeps_e4m3_on_an_a100() -> None:
    fleet = EVERYTHING.model_copy(
        update={"images": {Backend.VLLM: EngineImage(image="example/triton:24.10", triton_version="2.51.0")}}
    )
    assert planned(LLAMA, "a100-80gb", fleet, kvCache={"dtype": "fp8_e4m3"}).fits is True


def test_a_namespace_s_quota_bounds_what_one_service_asks_for() -> None:
    pools = {"gpu": {"accelerator": "a100-80gb", "quota": {"default": 2, "*": 8}}}
    fleet = EVERYTHING.model_validate({"pools": pools})
    found = planned(LLAMA, "gpu", fleet, replicas=3)
    assert found.fits is False
    assert "namespace default may take 2 of gpu" in found.reason
    assert found.remedies == ("Write at most 2, or ask for a larger quota.",)
    assert planned(LLAMA, "gpu", fleet, replicas=2).fits is True


OVER_TWO: dict[str, Any] = {"engine": {"backend": "vllm", "parallelism": {"tensor": 8, "pipeline": 2, "nodes": 2}}}
LARGEST = "meta-llama/Llama-3.1-405B-Instruct"


def test_a_model_larger_than_a_node_fits_on_two() -> None:
    """Parameters of 405,853,388,800 in 2 bytes are 756 GiB; a node of eight A100 80 GB has 633, two have twice that."""
    one = planned(LARGEST, "a100-80gb", engine={"backend": "vllm", "parallelism": {"tensor": 8}})
    two = planned(LARGEST, "a100-80gb", model={"maxLength": 32_768}, **OVER_TWO)
    assert one.fits is False
    assert two.fits is True
    assert (two.nodes, two.accelerators_per_replica, two.accelerators_per_pod) == (2, 16, 8)


def test_each_node_is_compared_with_the_largest_of_the_pool() -> None:
    fleet = {"pools": {"small": {"accelerator": "a100-80gb", "acceleratorsPerNode": 4}}}
    too_wide = planned(LARGEST, "small", FleetDefaults.model_validate(fleet), **OVER_TWO)
    (problem,) = (one for one in too_wide.problems if one.code == "plan-node-size")
    assert "One replica takes 8 accelerators of one node, and the largest of pool small has 4" in problem.message
    assert "spread the replica over parallelism.nodes: 4" in problem.remedy


def test_vllm_before_its_own_several_nodes() -> None:
    image = "nvcr.io/nvidia/tritonserver:25.12-vllm-python-py3"
    (problem,) = planned(LARGEST, "a100-80gb", engine=OVER_TWO["engine"] | {"image": image}).problems
    assert problem.code == "plan-nodes-version"
    assert "vLLM 0.11.1" in problem.message
    assert "vLLM 0.13.0 or later (26.01)" in problem.remedy


def test_processors_have_one_node() -> None:
    fleet = {"pools": {"host": {"accelerator": "cpu", "memory": "64Gi"}}}
    found = planned("meta-llama/Llama-3.2-1B", "host", FleetDefaults.model_validate(fleet), **OVER_TWO)
    assert "plan-nodes-cpu" in {problem.code for problem in found.problems}
