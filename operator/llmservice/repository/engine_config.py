"""The engine's configuration: the model that holds the weights, computes, and takes no request from clients."""

from __future__ import annotations

import json
from typing import Any, Final

from llmservice.api.engine import OWNED_PARAMETERS, Backend, EngineSpec
from llmservice.api.knobs import Knobs
from llmservice.api.plan import CapacityPlan
from llmservice.api.service import LLMService
from llmservice.repository.errors import RenderError
from llmservice.repository.gate_config import engine_sequences
from llmservice.repository.images import serving_images, stock_vllm
from llmservice.repository.layout import Paths, engine_name
from llmservice.repository.proto import DataType, ModelConfig, ModelInstanceGroup
from llmservice.repository.vllm_extras import adapter_paths, extra_arguments, vllm_options

NEWEST: Final = serving_images()[-1].triton
"""The image whose vLLM is taken for one that has none: a host's own."""

WORKER_PARAMETERS: Final = "1/parameters.json"
"""What the workers of a replica over several nodes read in the place of `config.pbtxt`, which only Triton reads."""

CONTROL_TENSOR: Final = "control"
"""What may be asked of a running engine, as JSON: its slots. Requests for tokens come from the gate."""


def engine_config(
    service: LLMService, plan: CapacityPlan, knobs: Knobs, paths: Paths, triton_version: str = NEWEST
) -> Any:
    """The `ModelConfig` of our own engine. Raises RenderError for a parameter of the operator's."""
    engine = service.spec.engine
    config = ModelConfig(name=engine_name(service.metadata.name), backend="python", max_batch_size=0)
    config.input.add(name=CONTROL_TENSOR, data_type=DataType.Value("TYPE_STRING"), dims=[1], optional=True)
    config.output.add(name=CONTROL_TENSOR, data_type=DataType.Value("TYPE_STRING"), dims=[1])
    _add_instances(config, engine, plan, knobs.engine_instances)
    parameters = _owned_parameters(service, plan, knobs, paths)
    refuse_owned(engine)
    if engine.backend is Backend.VLLM:
        parameters |= _vllm_parameters(service, triton_version, paths)
    for key, value in (engine.parameters | parameters).items():
        config.parameters[key].string_value = value
    return config


def worker_files(config: Any) -> dict[str, str]:
    """Path inside the repository → text, of what the engine's other nodes need; empty for an engine on one node.

    Slots change live and mean nothing to them: a file that changed would load the engine again.
    """
    if "nodes" not in config.parameters:
        return {}
    told = {key: value.string_value for key, value in config.parameters.items() if key != "slots"}
    text = json.dumps(told, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    return {f"{config.name}/{WORKER_PARAMETERS}": text}


def _vllm_parameters(service: LLMService, triton_version: str, paths: Paths) -> dict[str, str]:
    """Adapters by name, and vLLM's arguments for them and for speculative decoding, JSON each."""
    extra = extra_arguments(service, stock_vllm(triton_version), paths)
    found = {key: value if isinstance(value, str) else json.dumps(value) for key, value in extra.items()}
    adapters = adapter_paths(vllm_options(service), paths)
    return found | ({"adapters": json.dumps(adapters)} if adapters else {})


def refuse_owned(engine: EngineSpec) -> None:
    """Raises RenderError for a parameter that the operator renders from the spec, with the field that sets it."""
    for key in engine.parameters:
        if key in OWNED_PARAMETERS:
            raise RenderError(
                f"spec.engine.parameters[{key}]",
                f"is set by the operator: remove it; its field is {OWNED_PARAMETERS[key]}",
            )


def _owned_parameters(service: LLMService, plan: CapacityPlan, knobs: Knobs, paths: Paths) -> dict[str, str]:
    """What gate and engine agree on, and engine options. Lists are JSON; an absent key is the backend's default."""
    spec = service.spec
    parameters = {
        "run_directory": paths.run_directory,
        "service": service.metadata.name,
        "mode": spec.batching.mode.value,
        "max_sequences": str(engine_sequences(spec.batching, plan)),
        "slots": str(knobs.slots),
        "dtype": spec.model.dtype.value,
        "kv_dtype": spec.kv_cache.dtype.value,
        "memory_percent": str(spec.kv_cache.memory_percent),
        "model_path": paths.model_path,
    }
    if plan.max_length:
        parameters["max_length"] = str(plan.max_length)
    if spec.batching.max_batch_tokens is not None:
        parameters["max_batch_tokens"] = str(spec.batching.max_batch_tokens)
    if spec.engine.backend is Backend.VLLM:
        parameters["tensor_parallel"] = str(spec.engine.parallelism.tensor)
        parameters["pipeline_parallel"] = str(spec.engine.parallelism.pipeline)
    if spec.engine.parallelism.nodes > 1:
        parameters["nodes"] = str(spec.engine.parallelism.nodes)
    if spec.engine.torch is not None:
        parameters["length_buckets"] = json.dumps(spec.engine.torch.length_buckets)
    if spec.model.tokenizer is not None and spec.model.tokenizer.chat_template is not None:
        parameters["chat_template"] = spec.model.tokenizer.chat_template
    return parameters


def _add_instances(config: Any, engine: EngineSpec, plan: CapacityPlan, count: int) -> None:
    """Where the engine's instances live. Triton counts KIND_GPU instances per listed GPU.

    An engine split over several accelerators picks its devices itself (KIND_MODEL), since Triton would show it one.
    """
    group = config.instance_group.add(count=count)
    if plan.accelerators_per_replica == 0 or plan.accelerator == "cpu":
        group.kind = ModelInstanceGroup.KIND_CPU
    elif engine.parallelism.accelerators > 1:
        group.kind = ModelInstanceGroup.KIND_MODEL
    else:
        group.kind = ModelInstanceGroup.KIND_GPU
        group.gpus.extend(range(plan.accelerators_per_replica))
