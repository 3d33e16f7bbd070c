"""The repository of NVIDIA's stock vLLM backend: one model, `config.pbtxt` and `1/model.json`."""

from __future__ import annotations

import json
from typing import Any, Final

from llmservice.api.operations import KvCacheDtype
from llmservice.api.plan import CapacityPlan
from llmservice.api.service import LLMService
from llmservice.repository.engine_config import refuse_owned
from llmservice.repository.errors import RenderError
from llmservice.repository.gate_config import engine_sequences
from llmservice.repository.images import StockVllm, stock_vllm
from llmservice.repository.layout import CONFIG_FILE, Paths, gate_name
from llmservice.repository.proto import DataType, ModelConfig, ModelInstanceGroup, to_text
from llmservice.repository.vllm_extras import adapter_paths, extra_arguments, vllm_options

ENGINE_ARGUMENTS: Final = "1/model.json"
"""vLLM's `AsyncEngineArgs`, as the backend reads them (vllm_backend, src/model.py, `_VLLM_ENGINE_ARGS_FILENAME`)."""

ADAPTERS: Final = "1/multi_lora.json"
"""Folder by adapter's name; requests name one by `lora_name` in their sampling parameters."""

HEALTH_CHECK: Final = "ENABLE_VLLM_HEALTH_CHECK"
"""The one parameter of `config.pbtxt` that a user may set; all others are the engine's arguments."""


def stock_vllm_files(service: LLMService, plan: CapacityPlan, triton_version: str, paths: Paths) -> dict[str, str]:
    """Path inside the repository → text. Raises RenderError, and UnknownTritonVersionError."""
    refuse_owned(service.spec.engine)
    backend = stock_vllm(triton_version)
    name = gate_name(service.metadata.name)
    extra = extra_arguments(service, backend, paths)
    files = {
        f"{name}/{CONFIG_FILE}": to_text(_config(service, backend)),
        f"{name}/{ENGINE_ARGUMENTS}": _json(_engine_arguments(service, plan, paths) | _as_read(extra, backend)),
    }
    adapters = adapter_paths(vllm_options(service), paths)
    return files | ({f"{name}/{ADAPTERS}": _json(adapters)} if adapters else {})


def _as_read(arguments: dict[str, Any], backend: StockVllm) -> dict[str, Any]:
    """The oldest backend compares `enable_lora` as text."""
    text = backend.lora_as_text and "enable_lora" in arguments
    return arguments | ({"enable_lora": "true"} if text else {})


def _config(service: LLMService, backend: StockVllm) -> Any:
    """What the backend would complete by itself, written out: Triton starts without auto-completion."""
    config = ModelConfig(name=gate_name(service.metadata.name), backend="vllm", max_batch_size=0)
    for tensor in backend.inputs:
        config.input.add(
            name=tensor.name,
            data_type=DataType.Value(tensor.data_type),
            dims=tensor.dims,
            optional=tensor.name != "text_input",
        )
    for tensor in backend.outputs:
        config.output.add(name=tensor.name, data_type=DataType.Value(tensor.data_type), dims=tensor.dims)
    config.model_transaction_policy.decoupled = True
    # One engine: every further instance would load the weights again on the same accelerator (server#6855, #7578).
    config.instance_group.add(kind=ModelInstanceGroup.KIND_MODEL, count=1)
    config.parameters["REPORT_CUSTOM_METRICS"].string_value = backend.metrics_value
    checked = service.spec.engine.parameters.get(HEALTH_CHECK)
    if checked is not None and not backend.health_check:
        raise RenderError(
            f"spec.engine.parameters[{HEALTH_CHECK}]",
            f"image {backend.image.tag} knows no health check: remove it, or use an image of 24.12 or later",
        )
    if checked is not None:
        config.parameters[HEALTH_CHECK].string_value = checked
    return config


def _engine_arguments(service: LLMService, plan: CapacityPlan, paths: Paths) -> dict[str, Any]:
    spec = service.spec
    owned: dict[str, Any] = {
        "model": paths.model_path,
        "dtype": spec.model.dtype.value,
        "kv_cache_dtype": "auto" if spec.kv_cache.dtype is KvCacheDtype.AUTO else spec.kv_cache.dtype.value,
        "max_num_seqs": engine_sequences(spec.batching, plan),
        "gpu_memory_utilization": spec.kv_cache.memory_percent / 100,
        "tensor_parallel_size": spec.engine.parallelism.tensor,
        "pipeline_parallel_size": spec.engine.parallelism.pipeline,
        "disable_log_stats": False,  # else the backend exports nothing
    }
    if plan.max_length:
        owned["max_model_len"] = plan.max_length
    if spec.batching.max_batch_tokens is not None:
        owned["max_num_batched_tokens"] = max(spec.batching.max_batch_tokens, owned["max_num_seqs"])
    asked = {key: typed(text) for key, text in spec.engine.parameters.items() if key != HEALTH_CHECK}
    return asked | owned


def typed(text: str) -> Any:
    """The value of an engine's argument: JSON where the text is JSON, and else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
