"""The plan beside KAITO's estimator, on the same models: how many GPUs a model with a given context is said to need.

KAITO (commit 056b828, pkg/workspace/estimator/nodesestimator): GPUs = floor(1.02 W / ((0.84 M - 2.3 GiB - K) / 1.05))
+ 1, where W is the size of the safetensors files, M the memory of one GPU, and K the cache of one sequence, shared by
the GPUs of a node. It answers with nodes; here with GPUs of nodes of one, so that both can be read side by side.
"""

from __future__ import annotations

from typing import Any, Final

from benchmarks.capacity_cases import FLEET, service
from llmservice.capacity.models import catalogue
from llmservice.capacity.plan import plan

GIB: Final = 2**30
MODELS: Final = (
    ("HuggingFaceTB/SmolLM2-1.7B", 8192),
    ("microsoft/Phi-4-mini-instruct", 32_768),
    ("meta-llama/Llama-3.1-8B-Instruct", 131_072),
    ("mistralai/Mistral-7B-Instruct-v0.3", 32_768),
    ("microsoft/phi-4", 16_384),
    ("Qwen/Qwen2.5-32B-Instruct", 32_768),
    ("google/gemma-3-27b-it", 131_072),
    ("meta-llama/Llama-3.3-70B-Instruct", 131_072),
)
GPUS: Final = ("a100-40gb", "a100-80gb")
MEMORY_GIB: Final = {"a100-40gb": 40, "a100-80gb": 80}
"""What a cloud's table of machine types says, which is what KAITO counts with."""


def kaito_gpus(weights_bytes: int, kv_bytes_per_token: int, context: int, memory_gib: int) -> int | None:
    """GPUs by KAITO's rule; None where it refuses the GPU as too small."""
    left = 0.84 * memory_gib * GIB - 2.3 * GIB - kv_bytes_per_token * context
    return int(1.02 * weights_bytes / (left / 1.05)) + 1 if left > 0 else None


def planned_gpus(repo: str, gpu: str, context: int) -> tuple[int | None, int]:
    """(GPUs, sequences of the whole context at once) by the smallest split that fits."""
    for tensor in (1, 2, 4, 5, 8, 10):
        engine: dict[str, Any] = {"backend": "vllm", "parallelism": {"tensor": tensor}}
        model = {"source": {"huggingFace": {"repo": repo}}, "maxLength": context}
        found = plan(service(repo, gpu, engine=engine, model=model), FLEET)
        if found.fits:
            return tensor, found.sequences_by_length[-1].sequences
    return None, 0


def side_by_side() -> str:
    """The comparison as a Markdown table."""
    lines = [
        "| model | context | GPU | KAITO, 2,048 tokens | KAITO, context | plan | sequences of the context |",
        "|---|---|---|---|---|---|---|",
    ]
    for repo, context in MODELS:
        model = catalogue().repositories[repo.lower()]
        size = 2 * model.parameters
        token = 2 * model.layers * model.kv_heads * model.head_size * 2
        for gpu in GPUS:
            default, whole = (kaito_gpus(size, token, length, MEMORY_GIB[gpu]) for length in (2048, context))
            ours, sequences = planned_gpus(repo, gpu, context)
            told = " | ".join(str(value or "too small") for value in (default, whole, ours))
            lines.append(f"| {model.name} | {context:,} | {gpu} | {told} | {sequences} |")
    return "\n".join(lines)
