"""What is impossible whatever the memory: splits that no kernel does, types that a GPU or a backend lacks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from llmservice.api.engine import Backend, Driver
from llmservice.api.findings import Finding
from llmservice.api.fleet import Pool
from llmservice.api.model import Dtype
from llmservice.api.operations import KvCacheDtype
from llmservice.api.service import LLMService
from llmservice.api.tensorrtllm import Runtime
from llmservice.capacity.accelerators import Accelerator, accelerators
from llmservice.capacity.architecture import Model
from llmservice.capacity.kv_dtypes import offered_kv_dtypes, vllm_version
from llmservice.capacity.quantization import HALF_TYPES, Quantization, quantization_named

SEVERAL_NODES: Final = (0, 13, 0)
"""The first vLLM in one of NVIDIA's images with `nnodes`, `node_rank` and `master_addr` (vllm#23691, November 2025)."""

QUOTA_CODE: Final = "plan-quota"
"""Code of the one problem that is no property of model and accelerator."""

OVERRIDE_ANNOTATION: Final = "triton-llm.dev/capacity-override"
"""On a service, with the value `true`: it is started although the plan says that it cannot work."""


def is_overridden(service: LLMService) -> bool:
    """Whether the service asks to be started against the plan."""
    return service.metadata.annotations.get(OVERRIDE_ANNOTATION) == "true"


def quantization_in_force(service: LLMService, model: Model | None) -> Quantization:
    """What vLLM's option `quantization` names, else what the model's files are."""
    named = quantization_named(service.spec.engine.parameters.get("quantization", ""))
    return named or (model.quantization if model else Quantization.NONE)


def problems(
    service: LLMService, accelerator: Accelerator, model: Model | None, triton_version: str
) -> tuple[Finding, ...]:
    """Everything that makes `service` impossible on `accelerator`; without a model, what can be said without it."""
    quantization = quantization_in_force(service, model)
    found = [*_of_slices(service, accelerator), *_of_driver(service, accelerator), *_of_engine(service, accelerator)]
    found += _of_nodes(service, accelerator, triton_version)
    found += _of_kv_dtype(service, accelerator, quantization, triton_version)
    if model:
        found += [*_of_tensor(service, accelerator, model), *_of_pipeline(service, accelerator, model)]
        found += _of_length(service, model)
    found += _of_quantization(service, accelerator, quantization)
    return tuple(found)


def node_problem(service: LLMService, pool: Pool, accelerators: int) -> tuple[Finding, ...]:
    """A replica with `accelerators` on each of its nodes, which no node of the pool has."""
    if pool.accelerators_per_node is None or accelerators <= pool.accelerators_per_node:
        return ()
    name, most, engine = service.spec.placement.pool, pool.accelerators_per_node, service.spec.engine
    split = engine.parallelism
    ways = f"Write a tensor and pipeline whose product is at most {most * split.nodes}"
    nodes = next((n for n in range(2, 17) if split.accelerators % n == 0 and split.accelerators // n <= most), 0)
    if nodes and engine.backend is Backend.VLLM and engine.driver is Driver.NATIVE:
        ways += f", spread the replica over parallelism.nodes: {nodes}"
    return (
        Finding(
            "plan-node-size",
            "spec.engine.parallelism",
            f"One replica takes {accelerators} accelerators of one node, and the largest of pool {name} has {most}.",
            f"{ways}, use a quantised copy of the model, or another pool.",
        ),
    )


def quota_problem(service: LLMService, pool: Pool, accelerators: int) -> tuple[Finding, ...]:
    """What a service that wants more accelerators than its namespace may take is told; empty for any other."""
    spec, quota = service.spec, pool.quota_of(service.metadata.namespace)
    replicas = spec.replicas if spec.replicas is not None else spec.scaling.min_replicas
    if quota is None or replicas * accelerators <= quota:
        return ()
    where = "spec.replicas" if spec.replicas is not None else "spec.scaling.minReplicas"
    asked = f"{replicas} replicas of {accelerators} accelerators are {replicas * accelerators}, and namespace"
    remedy = f"Write at most {quota // accelerators}, or ask for a larger quota."
    return (
        Finding(
            QUOTA_CODE,
            where,
            f"{asked} {service.metadata.namespace} may take {quota} of {spec.placement.pool}.",
            remedy,
        ),
    )


def _of_slices(service: LLMService, accelerator: Accelerator) -> Iterator[Finding]:
    split = service.spec.engine.parallelism
    count = split.accelerators
    if accelerator.slice and count > 1:
        yield Finding(
            "plan-mig-split",
            "spec.engine.parallelism",
            f"An engine cannot be split over MIG slices, and its parallelism asks for {count}.",
            "Write tensor: 1 and pipeline: 1, or placement.pool: a pool of whole accelerators.",
        )


def _of_nodes(service: LLMService, accelerator: Accelerator, triton_version: str) -> Iterator[Finding]:
    """Since vllm#23691 vLLM finds its processes on other nodes by itself; before, it needed Ray."""
    nodes, backend = service.spec.engine.parallelism.nodes, service.spec.engine.backend
    if nodes == 1:
        return
    if accelerator.is_cpu:
        yield Finding(
            "plan-nodes-cpu",
            "spec.engine.parallelism.nodes",
            f"A replica on processors runs on one node, and this one asks for {nodes}.",
            "Write nodes: 1, or a pool of accelerators.",
        )
    elif backend is Backend.VLLM and vllm_version(triton_version) < SEVERAL_NODES:
        have, need = (".".join(map(str, version)) for version in (vllm_version(triton_version), SEVERAL_NODES))
        yield Finding(
            "plan-nodes-version",
            "spec.engine.parallelism.nodes",
            f"vLLM {have} of Triton {triton_version} cannot run on {nodes} nodes without Ray.",
            f"Use an image with vLLM {need} or later (26.01), or write nodes: 1.",
        )


def _of_driver(service: LLMService, accelerator: Accelerator) -> Iterator[Finding]:
    engine = service.spec.engine
    if engine.driver is Driver.NVIDIA and accelerator.is_cpu:
        yield Finding(
            "plan-stock-cpu",
            "spec.placement.pool",
            f"The stock {engine.backend.value} backend in NVIDIA's images computes on GPUs only.",
            "Write a pool of GPUs, or engine.driver: Native with backend: torch or vllm.",
        )


def _of_engine(service: LLMService, accelerator: Accelerator) -> Iterator[Finding]:
    """A TensorRT engine holds kernels for the compute capability that it was built on, and for no other."""
    options = service.spec.engine.tensorrtllm
    built = options.engine.compute_capability if options and options.engine else None
    have = ".".join(map(str, accelerator.compute_capability))
    if built is not None and not accelerator.is_cpu and built != have:
        yield Finding(
            "plan-engine-gpu",
            "spec.engine.tensorrtllm.engine.computeCapability",
            f"The engine was built for compute capability {built}, and {accelerator.name} has {have}.",
            f"Build it on {accelerator.name}, or write a pool of GPUs with {built}"
            + (f", such as {other}." if (other := _pool_with(built)) else "."),
        )


def _pool_with(capability: str) -> str:
    """A whole GPU of the catalogue with `capability`; empty for none."""
    matching = (
        item.name
        for item in accelerators().values()
        if ".".join(map(str, item.compute_capability)) == capability and not item.mig and not item.slice
    )
    return next(matching, "")


def _of_tensor(service: LLMService, accelerator: Accelerator, model: Model) -> Iterator[Finding]:
    """Heads are split whole; KV heads evenly, or each repeated equally often (vLLM, `QKVParallelLinear`)."""
    tensor = service.spec.engine.parallelism.tensor
    if accelerator.is_cpu or tensor == 1:
        return
    possible = [n for n in range(1, 65) if splits(n, model)]
    if tensor not in possible:
        heads = f"{model.heads} heads" if model.latent else f"{model.heads} heads and {model.kv_heads} KV heads"
        yield Finding(
            "plan-tensor-heads",
            "spec.engine.parallelism.tensor",
            f"{model.name} has {heads}, which {tensor} accelerators cannot share evenly.",
            f"Write one of {', '.join(str(n) for n in possible if n <= 16)}.",
        )


def splits(tensor: int, model: Model) -> bool:
    """Whether `tensor` accelerators can share the heads of `model`."""
    shared = model.latent is not None or model.kv_heads % tensor == 0 or tensor % model.kv_heads == 0
    return model.heads % tensor == 0 and shared


def _of_pipeline(service: LLMService, accelerator: Accelerator, model: Model) -> Iterator[Finding]:
    pipeline = service.spec.engine.parallelism.pipeline
    if not accelerator.is_cpu and pipeline > model.layers:
        yield Finding(
            "plan-pipeline-layers",
            "spec.engine.parallelism.pipeline",
            f"{model.name} has {model.layers} layers, fewer than {pipeline} stages.",
            f"Write at most {model.layers}.",
        )


def _of_length(service: LLMService, model: Model) -> Iterator[Finding]:
    asked = service.spec.model.max_length
    if asked is not None and asked > model.max_length:
        yield Finding(
            "plan-max-length",
            "spec.model.maxLength",
            f"{asked} is above the {model.max_length} positions that {model.name} was made for.",
            f"Write at most {model.max_length}, or nothing.",
        )


def _of_quantization(service: LLMService, accelerator: Accelerator, quantization: Quantization) -> Iterator[Finding]:
    spec = service.spec
    backend, dtype = spec.engine.backend, spec.model.dtype
    if quantization is Quantization.NONE:
        return
    if backend is Backend.TORCH:
        yield Finding(
            "plan-quantized-torch",
            "spec.model.source",
            f"The torch engine reads no {quantization.words} weights.",
            "Name the unquantised model, or write engine.backend: vllm.",
        )
        return
    if dtype not in HALF_TYPES:
        yield Finding(
            "plan-quantized-dtype",
            "spec.model.dtype",
            f"{quantization.words} weights are computed in 16 bits, not in {dtype.value}.",
            "Write dtype: auto, float16 or bfloat16.",
        )
    if dtype is Dtype.BFLOAT16 and spec.engine.parameters.get("quantization") == "awq":
        yield Finding(
            "plan-quantized-dtype",
            "spec.model.dtype",
            "vLLM's plain awq kernels compute in float16 only.",
            "Write dtype: float16, or the parameter quantization: awq_marlin.",
        )
    if quantization is Quantization.FP8 and backend is Backend.TENSORRTLLM and not accelerator.computes_fp8:
        yield Finding(
            "plan-fp8-weights",
            "spec.placement.pool",
            f"{accelerator.name} does not multiply fp8, which TensorRT-LLM needs for fp8 weights.",
            "Use an AWQ int4 or int8 copy of the model, or a pool of Ada or Hopper GPUs.",
        )


def _of_kv_dtype(
    service: LLMService, accelerator: Accelerator, quantization: Quantization, triton_version: str
) -> Iterator[Finding]:
    asked, backend = service.spec.kv_cache.dtype, service.spec.engine.backend
    offered = offered_kv_dtypes(backend, accelerator, quantization, triton_version)
    options = service.spec.engine.tensorrtllm
    if backend is Backend.TENSORRTLLM and not (options and options.runtime is Runtime.ENGINE):
        # LLM API on PyTorch: `KvCacheConfig.dtype` is auto, fp8 or nvfp4; int8 caches are calibrated into engines.
        offered = tuple(dtype for dtype in offered if dtype is not KvCacheDtype.INT8)
    if asked is KvCacheDtype.AUTO or asked in offered or backend is Backend.TORCH:
        return  # of torch the API's own rule says it
    yield Finding(
        "plan-kv-dtype",
        "spec.kvCache.dtype",
        f"{backend.value} of Triton {triton_version} keeps no {asked.value} cache on {accelerator.name}"
        + ("." if quantization is Quantization.NONE else f" beside {quantization.words} weights."),
        f"Write one of {', '.join(['Auto', *(dtype.value for dtype in offered)])}." if offered else "Write Auto.",
    )


def notes(service: LLMService, accelerator: Accelerator, quantization: Quantization) -> tuple[str, ...]:
    """What works, but not as people expect."""
    found = []
    vllm = service.spec.engine.backend is Backend.VLLM
    if vllm and quantization is Quantization.FP8 and not (accelerator.computes_fp8 or accelerator.is_cpu):
        found.append(
            f"{accelerator.name} does not multiply fp8: vLLM keeps the weights in fp8 and computes in 16 bits, which "
            "saves memory but no time."
        )
    return tuple(found)
