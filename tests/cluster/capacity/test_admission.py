"""The API server refuses the impossible with what to write instead, and nothing else."""

from __future__ import annotations

from typing import Any, Final

import pytest

from llmservice.api.fleet import FleetDefaults
from llmservice.api.service import LLMService
from llmservice.capacity.limits import OVERRIDE_ANNOTATION
from llmservice.capacity.plan import plan
from llmservice.capacity.pools import with_built_in_pools
from tests.cluster.api.conftest import Kubectl
from tests.cluster.capacity.conftest import service

pytestmark = pytest.mark.cluster
TRT: Final = {"backend": "tensorrtllm", "driver": "Nvidia"}
EVERYTHING: Final = with_built_in_pools(FleetDefaults(built_in_pools=["*"]))

IMPOSSIBLE: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "mig-profile": (
        {"placement": {"pool": "a100-80gb-mig-9g.1gb"}},
        "spec.placement.pool: no GPU can be cut into a100-80gb-mig-9g.1gb",
    ),
    "gpu-without-mig": ({"placement": {"pool": "l4-mig-1g.5gb"}}, "no GPU can be cut into l4-mig-1g.5gb"),
    "tensor-of-heads": (
        {"engine": {"backend": "vllm", "parallelism": {"tensor": 3}}},
        "spec.engine.parallelism.tensor: 32 heads and 8 KV heads cannot be shared evenly by 3 accelerators",
    ),
    "tensor-of-kv-heads": (
        {"repo": "microsoft/phi-4", "engine": {"backend": "vllm", "parallelism": {"tensor": 4}}},
        "40 heads and 10 KV heads cannot be shared evenly by 4 accelerators",
    ),
    "longer-than-the-model": (
        {"model": {"maxLength": 262_144}},
        "spec.model.maxLength: 262144 is above the 131072 positions",
    ),
    "weights": (
        {"repo": "meta-llama/Llama-2-70b-hf"},
        "the weights alone are 131562 MiB and 1 accelerators of pool a100-80gb have 81152 MiB",
    ),
    "quantised-in-float32": (
        {"repo": "Qwen/Qwen2.5-7B-Instruct-AWQ", "model": {"dtype": "float32"}},
        "spec.model.dtype: quantised weights are computed in 16 bits",
    ),
    "quantised-on-torch": (
        {"repo": "Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "engine": {"backend": "torch"}},
        "the torch engine reads no quantised weights",
    ),
    "fp8-weights-on-a100": ({"repo": "Qwen/Qwen3-8B-FP8", "engine": TRT}, "does not multiply fp8"),
    "fp8-cache-on-a100": (
        {"engine": TRT, "kvCache": {"dtype": "fp8_e4m3"}},
        "spec.kvCache.dtype: TensorRT-LLM keeps no fp8_e4m3 cache on pool a100-80gb",
    ),
}

POSSIBLE: Final[dict[str, dict[str, Any]]] = {
    "plain": {},
    "fp8-weights-on-hopper": {"repo": "Qwen/Qwen3-8B-FP8", "engine": TRT, "placement": {"pool": "h100-80gb"}},
    "fp8-weights-of-vllm-on-a100": {"repo": "Qwen/Qwen3-8B-FP8"},
    "int8-cache-on-a100": {"engine": TRT, "kvCache": {"dtype": "int8"}},
    "split-over-two": {
        "repo": "meta-llama/Llama-2-70b-hf",
        "engine": {"backend": "vllm", "parallelism": {"tensor": 2}},
    },
    "repeated-kv-heads": {
        "repo": "Qwen/Qwen2.5-0.5B",
        "engine": {"backend": "vllm", "parallelism": {"tensor": 14}},
    },
    "a-slice": {"repo": "meta-llama/Llama-3.2-1B", "placement": {"pool": "a100-40gb-mig-1g.5gb.me"}},
    "a-model-of-nobody": {"repo": "example/unheard-of", "engine": {"backend": "vllm", "parallelism": {"tensor": 3}}},
    "a-pool-of-the-fleet-s-own": {"repo": "meta-llama/Llama-2-70b-hf", "placement": {"pool": "huge"}},
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_the_impossible_is_refused_in_words(refusing: Kubectl, case: str) -> None:
    spec, said = IMPOSSIBLE[case]
    result = refusing.dry_run(service(**dict(spec)))
    assert result.returncode != 0
    assert said in result.stderr
    assert f"annotate it {OVERRIDE_ANNOTATION}: 'true'" in result.stderr


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_an_annotation_lets_it_pass(refusing: Kubectl, case: str) -> None:
    spec, _ = IMPOSSIBLE[case]
    result = refusing.dry_run(service(**spec, annotations={OVERRIDE_ANNOTATION: "true"}))
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_the_plan_says_no_as_well(case: str) -> None:
    manifest = service(**dict(IMPOSSIBLE[case][0]))
    found = plan(LLMService.parse(manifest), EVERYTHING)
    assert found.fits is False or found.accelerator == ""  # a pool that there is not has no verdict


@pytest.mark.parametrize("case", POSSIBLE)
def test_what_may_work_is_taken(refusing: Kubectl, case: str) -> None:
    result = refusing.dry_run(service(**dict(POSSIBLE[case])))
    assert result.returncode == 0, result.stderr


def test_a_service_from_before_the_policy_can_still_be_labelled(refusing: Kubectl) -> None:
    stored = service(annotations={OVERRIDE_ANNOTATION: "true"}, model={"maxLength": 262_144})
    refusing.must("apply", "-f", "-", document=stored)
    refusing.must("annotate", "llmservice", "chat", f"{OVERRIDE_ANNOTATION}-")
    refusing.must("label", "llmservice", "chat", "team=search")
    changed = refusing("patch", "llmservice", "chat", "--type=merge", "-p", '{"spec": {"drain": {"timeout": "1m"}}}')
    assert "above the 131072 positions" in changed.stderr
    refusing.must("delete", "llmservice", "chat")
