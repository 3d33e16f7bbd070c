"""TensorRT-LLM by its LLM API on PyTorch: one Python model, `config.pbtxt` and `1/model.yaml`; its code is the image's.

Sources: NVIDIA/TensorRT-LLM, triton_backend/all_models/llmapi/tensorrt_llm (config.pbtxt, 1/model.py, 1/model.yaml);
arguments of `LLM()`: nvidia.github.io/TensorRT-LLM/llm-api; images with it: from 25.05 on (tensorrtllm_backend, branch
r25.05, docs/llmapi.md).
"""

from __future__ import annotations

from typing import Any, Final

import yaml

from llmservice.api.operations import KvCacheDtype
from llmservice.api.plan import CapacityPlan
from llmservice.api.service import LLMService
from llmservice.repository.engine_config import refuse_owned
from llmservice.repository.errors import RenderError
from llmservice.repository.gate_config import engine_sequences
from llmservice.repository.images import image_with
from llmservice.repository.layout import CONFIG_FILE, Paths, gate_name
from llmservice.repository.proto import DataType, ModelConfig, ModelInstanceGroup, to_text
from llmservice.repository.stock_vllm import typed

OLDEST_TAG: Final = "25.05"
ENGINE_ARGUMENTS: Final = "1/model.yaml"
CANCELLATION_PERIOD_MS: Final = 100
_KV_DTYPES: Final = {KvCacheDtype.AUTO: "auto", KvCacheDtype.FP8_E4M3: "fp8"}
_SAMPLING: Final = {
    "best_of": "TYPE_INT32",
    "temperature": "TYPE_FP32",
    "top_k": "TYPE_INT32",
    "top_p": "TYPE_FP32",
    "frequency_penalty": "TYPE_FP32",
    "presence_penalty": "TYPE_FP32",
    "max_tokens": "TYPE_INT32",
    "seed": "TYPE_UINT64",
    "exclude_input_from_output": "TYPE_BOOL",
}
_SWITCHES: Final = ("return_finish_reason", "return_stop_reason", "return_cumulative_logprob", "stop")
_OUTPUTS: Final = {
    "text_output": "TYPE_STRING",
    "finish_reason": "TYPE_STRING",
    "stop_reason": "TYPE_STRING",
    "cumulative_logprob": "TYPE_FP32",
}
"""Tensors of every image that has the LLM API; what came later (metrics per request, adapters by path) is left out."""


def llmapi_files(service: LLMService, plan: CapacityPlan, triton_version: str, paths: Paths) -> dict[str, str]:
    """Path inside the repository → text. Raises RenderError, and UnknownTritonVersionError."""
    refuse_owned(service.spec.engine)
    image = image_with(triton_version)
    if image.tag < OLDEST_TAG:
        raise RenderError(
            "spec.engine.image",
            f"image {image.tag} has no LLM API for Triton: use one of {OLDEST_TAG} or later, or "
            "engine.tensorrtllm.runtime: Engine",
        )
    name = gate_name(service.metadata.name)
    return {
        f"{name}/{CONFIG_FILE}": to_text(_config(service)),
        f"{name}/{ENGINE_ARGUMENTS}": yaml.safe_dump(_arguments(service, plan, paths), sort_keys=True),
    }


def _config(service: LLMService) -> Any:
    config = ModelConfig(name=gate_name(service.metadata.name), backend="python", max_batch_size=0)

    def add_input(name: str, data_type: str, dims: int = 1, *, optional: bool = True) -> None:
        config.input.add(name=name, data_type=DataType.Value(data_type), dims=[dims], optional=optional)

    add_input("text_input", "TYPE_STRING", -1, optional=False)
    add_input("streaming", "TYPE_BOOL")
    for name, data_type in _SAMPLING.items():
        add_input(f"sampling_param_{name}", data_type)
    add_input("sampling_param_stop", "TYPE_STRING", -1)
    for name in _SWITCHES:
        add_input(name, "TYPE_BOOL")
    for name, data_type in _OUTPUTS.items():
        config.output.add(name=name, data_type=DataType.Value(data_type), dims=[-1])
    config.model_transaction_policy.decoupled = True
    # The model's process starts one worker for each GPU by itself; on its own it needs none.
    config.instance_group.add(kind=ModelInstanceGroup.KIND_CPU, count=1)
    return config


def _arguments(service: LLMService, plan: CapacityPlan, paths: Paths) -> dict[str, Any]:
    """What `LLM()` gets, and `triton_config`, which the model's code reads back: batching is the engine's alone."""
    spec = service.spec
    asked = {key: typed(text) for key, text in spec.engine.parameters.items()}
    owned: dict[str, Any] = {
        "model": paths.model_path,
        "backend": "pytorch",
        "dtype": spec.model.dtype.value,
        "tensor_parallel_size": spec.engine.parallelism.tensor,
        "pipeline_parallel_size": spec.engine.parallelism.pipeline,
        "max_batch_size": engine_sequences(spec.batching, plan),
        "triton_config": {
            "max_batch_size": 0,
            "decoupled": True,
            "cancellation_check_period_ms": CANCELLATION_PERIOD_MS,
        },
    }
    if plan.max_length:
        owned["max_seq_len"] = plan.max_length
    if spec.batching.max_batch_tokens is not None:
        owned["max_num_tokens"] = spec.batching.max_batch_tokens
    cache = asked.pop("kv_cache_config", {})
    if not isinstance(cache, dict):
        raise RenderError("spec.engine.parameters[kv_cache_config]", 'is no JSON object: write {"…": …}')
    own_cache = {
        "dtype": _kv_dtype(spec.kv_cache.dtype),
        "free_gpu_memory_fraction": free_memory_fraction(service, plan),
    }
    return asked | owned | {"kv_cache_config": cache | own_cache}


def _kv_dtype(dtype: KvCacheDtype) -> str:
    if dtype not in _KV_DTYPES:
        raise RenderError("spec.kvCache.dtype", f"the LLM API keeps no {dtype.value} cache: write Auto or fp8_e4m3")
    return _KV_DTYPES[dtype]


def free_memory_fraction(service: LLMService, plan: CapacityPlan) -> float:
    """The share of what is free after the model is loaded that the cache may take, so that all stays in memoryPercent.

    TensorRT-LLM counts from the memory that is left beside weights, context and activations
    (`free_gpu_memory_fraction`, `kv_cache_free_gpu_mem_fraction`); graphs and reserve come out of the rest. Without a
    plan of the memory, memoryPercent itself.
    """
    use = plan.memory
    if use is None:
        return service.spec.kv_cache.memory_percent / 100
    free = use.kv_cache + use.outside + use.graphs + use.reserve
    return max(1, use.kv_cache * 100 // max(1, free)) / 100
