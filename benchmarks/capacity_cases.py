"""The combinations of model, GPU, types and split on which the plan is compared with NVIDIA's memory model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from llmservice.api.fleet import FleetDefaults
from llmservice.api.plan import CapacityPlan
from llmservice.api.service import LLMService
from llmservice.capacity.accelerators import accelerators
from llmservice.capacity.architecture import Model
from llmservice.capacity.limits import splits
from llmservice.capacity.models import catalogue
from llmservice.capacity.plan import plan

MODELS: Final = {
    "meta-llama/Llama-2-7b-hf": "LlamaForCausalLM",
    "meta-llama/Llama-2-13b-hf": "LlamaForCausalLM",
    "meta-llama/Llama-2-70b-hf": "LlamaForCausalLM",
    "meta-llama/Llama-3.1-8B": "LlamaForCausalLM",
    "meta-llama/Llama-3.1-70B": "LlamaForCausalLM",
    "mistralai/Mistral-7B-v0.3": "LlamaForCausalLM",
    "Qwen/Qwen2.5-7B": "Qwen2ForCausalLM",
    "Qwen/Qwen2.5-32B": "Qwen2ForCausalLM",
    "Qwen/Qwen2.5-72B": "Qwen2ForCausalLM",
    "Qwen/Qwen3-8B": "Qwen3ForCausalLM",
    "Qwen/Qwen3-32B": "Qwen3ForCausalLM",
    "mistralai/Mixtral-8x7B-v0.1": "MixtralForCausalLM",
    "Qwen/Qwen3-30B-A3B": "Qwen3MoeForCausalLM",
}
"""Repository → architecture. Without models that share input and output embeddings: the reference counts them twice."""

GPUS: Final = {
    "a100-40gb": ("a100_sxm", "0.14.0"),
    "a100-80gb": ("a100_sxm", "0.14.0"),
    "h100-80gb": ("h100_sxm", "0.24.0"),
    "h200": ("h200_sxm", "0.24.0"),
    "l40s": ("l40s", "0.24.0"),
}
"""Accelerator → the reference's system, and the vLLM whose measurements it has."""

TENSORS: Final = (1, 2, 4, 8)
WEIGHTS: Final = {"": None, "fp8": "fp8", "int8": "int8_wo"}
"""Quantisation in the operator's words → in the reference's. Its int4 has no scales, so it is compared with files."""

STEP_TOKENS: Final = 8192
MEMORY_PERCENT: Final = 90


@dataclass(frozen=True)
class Compared:
    """One combination. Both sides are given the same memory, so that what they do with it is compared."""

    repo: str
    gpu: str
    tensor: int
    weights: str
    kv: str

    @property
    def memory_bytes(self) -> int:
        """Of one accelerator, as the catalogue has it."""
        return accelerators()[self.gpu].memory_bytes

    def asked(self, folders: Path) -> dict[str, Any]:
        """The case as the reference takes it."""
        system, version = GPUS[self.gpu]
        model = catalogue().repositories[self.repo.lower()]
        return {
            "folder": str(folders / self.repo.replace("/", "--")),
            "system": system,
            "version": version,
            "step_tokens": STEP_TOKENS,
            "tensor": self.tensor,
            "weights": WEIGHTS[self.weights],
            "experts": "fp8" if self.weights == "fp8" else None,
            "output_layer_bytes": model.vocab * model.hidden * 2 // self.tensor if model.experts else 0,
            "kv": "fp8" if self.kv != "Auto" else None,
            "fraction": MEMORY_PERCENT / 100,
            "memory_bytes": self.memory_bytes,
        }

    def planned(self) -> CapacityPlan:
        """The operator's plan."""
        engine: dict[str, Any] = {"backend": "vllm", "parallelism": {"tensor": self.tensor}}
        if self.weights:
            engine["parameters"] = {"quantization": self.weights}
        return plan(service(self.repo, self.gpu, engine=engine, kvCache={"dtype": self.kv}), FLEET)


FLEET: Final = FleetDefaults.model_validate({"pools": {name: {"accelerator": name} for name in (*GPUS, "a30", "l4")}})


def service(repo: str, pool: str, **spec: Any) -> LLMService:
    """A service of a hub repository."""
    return LLMService.parse(
        {
            "metadata": {"name": "compared"},
            "spec": {
                "model": {"source": {"huggingFace": {"repo": repo}}},
                "placement": {"pool": pool},
                "batching": {"maxBatchTokens": STEP_TOKENS},
                **spec,
            },
        }
    )


def combinations() -> Iterator[Compared]:
    """Every combination that both sides can be asked about."""
    for repo in MODELS:
        for gpu in GPUS:
            for tensor in TENSORS:
                if not splits(tensor, catalogue().repositories[repo.lower()]):
                    continue  # both refuse it
                for weights in WEIGHTS:
                    if weights and (weights == "fp8") != accelerators()[gpu].computes_fp8:
                        continue
                    if weights == "int8" and catalogue().repositories[repo.lower()].experts:
                        continue  # the reference has no int8 experts
                    yield Compared(repo, gpu, tensor, weights, "Auto")
            yield Compared(repo, gpu, 1, "", "fp8_e5m2" if not accelerators()[gpu].computes_fp8 else "fp8_e4m3")


def write_configs(folders: Path) -> None:
    """A folder with a config.json for each model, which is all that the reference reads."""
    for repo, architecture in MODELS.items():
        folder = folders / repo.replace("/", "--")
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps(config(catalogue().repositories[repo.lower()], architecture)))


def config(model: Model, architecture: str) -> dict[str, Any]:
    """`model` as transformers writes it."""
    written: dict[str, Any] = {
        "architectures": [architecture],
        "model_type": architecture.removesuffix("ForCausalLM").lower(),
        "hidden_size": model.hidden,
        "intermediate_size": model.intermediate,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads,
        "head_dim": model.head_size,
        "vocab_size": model.vocab,
        "max_position_embeddings": model.max_length,
        "tie_word_embeddings": model.tied,
        "torch_dtype": model.dtype.value,
    }
    if model.experts:
        names = ("num_local_experts", "num_experts")
        written |= dict.fromkeys(names, model.experts.count)
        written |= {
            "num_experts_per_tok": model.experts.per_token,
            "moe_intermediate_size": model.experts.intermediate,
        }
    return written
