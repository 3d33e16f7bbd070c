"""TensorRT-LLM's C++ backend with in-flight batching: preprocessing, engine, postprocessing, and what chains them.

Keys and their meaning: tensorrtllm_backend, docs/model_config.md. The Python of three of the models is the image's.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from llmservice.api.plan import CapacityPlan
from llmservice.api.service import LLMService
from llmservice.api.tensorrtllm import INSTANCE_COUNTS, BuiltEngine, Chain
from llmservice.repository.engine_config import refuse_owned
from llmservice.repository.errors import RenderError
from llmservice.repository.gate_config import engine_sequences
from llmservice.repository.images import Tensor, image_with
from llmservice.repository.layout import (
    CONFIG_FILE,
    POSTPROCESSING,
    PREPROCESSING,
    Paths,
    engine_name,
    gate_name,
)
from llmservice.repository.pipeline_ensemble import ensemble_config
from llmservice.repository.proto import DataType, ModelConfig, ModelInstanceGroup, to_text
from llmservice.repository.stock_llmapi import free_memory_fraction

WORKER: Final = "/opt/tritonserver/backends/tensorrtllm/trtllmExecutorWorker"
PLACEHOLDER: Final = "1/.version"
"""Triton wants a version folder of every model, also of an ensemble, and nothing is written for one."""


def pipeline_files(service: LLMService, plan: CapacityPlan, triton_version: str, paths: Paths) -> dict[str, str]:
    """Path inside the repository → text. Raises RenderError, and UnknownTritonVersionError."""
    refuse_owned(service.spec.engine)
    tag = image_with(triton_version).tag
    batch = _batch_size(service, plan)
    configs = [
        _front(service, tag, batch),
        _preprocessing(service, paths, tag, batch),
        _engine(service, plan, paths, tag, batch),
        _postprocessing(service, paths, tag, batch),
    ]
    files = {f"{config.name}/{CONFIG_FILE}": to_text(config) for config in configs}
    return files | {f"{gate_name(service.metadata.name)}/{PLACEHOLDER}": ""}


def built_engine(service: LLMService) -> BuiltEngine:
    """What the spec says of the engine."""
    options = service.spec.engine.tensorrtllm
    return (options.engine if options else None) or BuiltEngine()


def _batch_size(service: LLMService, plan: CapacityPlan) -> int:
    """Triton's `max_batch_size` of all models: the engine's own where it is stated, never more than the spec asks."""
    most = built_engine(service).max_batch_size
    wanted = engine_sequences(service.spec.batching, plan)
    asked = service.spec.batching.max_sequences
    if most is not None and asked is not None and asked > most:
        raise RenderError(
            "spec.batching.maxSequences",
            f"{asked} is above the {most} sequences that the engine was built for: write at most {most}, or build it "
            "with a larger max_batch_size",
        )
    return wanted if most is None else min(wanted, most)


def _front(service: LLMService, tag: str, batch: int) -> Any:
    if built_engine(service).chain is Chain.ENSEMBLE:
        return ensemble_config(service.metadata.name, tag, batch)
    config = _model("bls", gate_name(service.metadata.name), "python", tag, batch)
    config.model_transaction_policy.decoupled = True
    # Each instance runs one request, so fewer than the engine's batch would leave it unfilled.
    count = _instances(service, "bls_instance_count", batch)
    config.instance_group.add(kind=ModelInstanceGroup.KIND_CPU, count=count)
    _set(config, accumulate_tokens="false", tensorrt_llm_model_name=engine_name(service.metadata.name))
    return config


def _preprocessing(service: LLMService, paths: Paths, tag: str, batch: int) -> Any:
    config = _tokenizing("preprocessing", PREPROCESSING, service, paths, tag, batch)
    # The code looks for both paths of vision models, under the names of its image; empty means a model of text.
    _set(config, visual_model_path="", multimodal_model_path="")
    return config


def _postprocessing(service: LLMService, paths: Paths, tag: str, batch: int) -> Any:
    config = _tokenizing("postprocessing", POSTPROCESSING, service, paths, tag, batch)
    _set(config, skip_special_tokens="true")
    return config


def _tokenizing(table: str, name: str, service: LLMService, paths: Paths, tag: str, batch: int) -> Any:
    """A model that only needs the tokenizer."""
    config = _model(table, name, "python", tag, batch)
    config.dynamic_batching.SetInParent()
    count = _instances(service, f"{table}_instance_count", 1)
    config.instance_group.add(kind=ModelInstanceGroup.KIND_CPU, count=count)
    _set(config, tokenizer_dir=_tokenizer(service, paths))
    return config


def _engine(service: LLMService, plan: CapacityPlan, paths: Paths, tag: str, batch: int) -> Any:
    config = _model("engine", engine_name(service.metadata.name), "tensorrtllm", tag, batch)
    config.model_transaction_policy.decoupled = True
    # Delay 0 and no limit: the executor takes every request at once, so neither would bound what waits inside
    # (tensorrtllm_backend#412).
    config.dynamic_batching.SetInParent()
    config.instance_group.add(kind=ModelInstanceGroup.KIND_CPU, count=1)
    asked = {key: text for key, text in service.spec.engine.parameters.items() if key not in INSTANCE_COUNTS}
    owned = {
        "gpt_model_type": "inflight_fused_batching",
        "gpt_model_path": paths.model_path,
        "FORCE_CPU_ONLY_INPUT_TENSORS": "no",
        "executor_worker_path": WORKER,
        "kv_cache_free_gpu_mem_fraction": f"{free_memory_fraction(service, plan):g}",
    }
    defaults = {
        "max_beam_width": "1",
        "exclude_input_in_output": "true",  # as every other backend here answers
    }
    _set(config, **(defaults | asked | owned))
    return config


def _tokenizer(service: LLMService, paths: Paths) -> str:
    tokenizer = service.spec.model.tokenizer
    folder = (tokenizer.path if tokenizer else None) or ""
    return f"{paths.model_path}/{folder}" if folder else paths.model_path


def _instances(service: LLMService, key: str, default: int) -> int:
    text = service.spec.engine.parameters.get(key)
    if text is None:
        return default
    if not text.isdigit() or not 1 <= int(text) <= 4096:
        raise RenderError(f"spec.engine.parameters[{key}]", f"{text!r} is no count of instances: write 1 to 4096")
    return int(text)


def _model(table: str, name: str, backend: str, tag: str, batch: int) -> Any:
    config = ModelConfig(name=name, backend=backend, max_batch_size=batch)
    for tensor, flags in _tensors(table, "inputs", tag):
        added = config.input.add(
            name=tensor.name,
            data_type=DataType.Value(tensor.data_type),
            dims=tensor.dims,
            optional="o" in flags,
            allow_ragged_batch="r" in flags,
        )
        if "s" in flags:
            added.reshape.SetInParent()
    for tensor, _ in _tensors(table, "outputs", tag):
        config.output.add(name=tensor.name, data_type=DataType.Value(tensor.data_type), dims=tensor.dims)
    return config


def _set(config: Any, **parameters: str) -> None:
    for key, text in parameters.items():
        config.parameters[key].string_value = text


def _tensors(table: str, side: str, tag: str) -> Iterator[tuple[Tensor, str]]:
    for name, (data_type, dims, flags, *span) in _tables()[table][side].items():
        if (not span or span[0] <= tag) and (len(span) < 2 or tag <= span[1]):
            yield Tensor(name, data_type, tuple(dims)), flags


@cache
def _tables() -> Mapping[str, Any]:
    return tomllib.loads(files(__package__).joinpath("tensorrtllm.toml").read_text(encoding="utf-8"))
