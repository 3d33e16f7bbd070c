"""`spec.engine`: what computes."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from llmservice.api.schema import ApiModel, Rule
from llmservice.api.tensorrtllm import TensorRTLLMOptions
from llmservice.api.vllm import VllmOptions

OWNED_PARAMETERS: Final = {
    "run_directory": "nothing: the operator chooses it",
    "service": "metadata.name",
    "mode": "batching.mode",
    "max_sequences": "batching.maxSequences",
    "slots": "batching.maxSequences",
    "max_batch_tokens": "batching.maxBatchTokens",
    "max_length": "model.maxLength",
    "dtype": "model.dtype",
    "length_buckets": "engine.torch.lengthBuckets",
    "kv_dtype": "kvCache.dtype",
    "memory_percent": "kvCache.memoryPercent",
    "model_path": "model.source",
    "chat_template": "model.tokenizer.chatTemplate",
    "served_names": "model.servedNames",
    "model": "model.source",
    "tokenizer": "model.source",
    "tensor_parallel": "engine.parallelism.tensor",
    "pipeline_parallel": "engine.parallelism.pipeline",
    "nodes": "engine.parallelism.nodes",
    "scheduling_policy": "batching.priorities",
    "disable_log_stats": "nothing: the operator counts",
    "tensor_parallel_size": "engine.parallelism.tensor",
    "pipeline_parallel_size": "engine.parallelism.pipeline",
    "gpu_memory_utilization": "kvCache.memoryPercent",
    "kv_cache_dtype": "kvCache.dtype",
    "max_num_seqs": "batching.maxSequences",
    "max_num_batched_tokens": "batching.maxBatchTokens",
    "max_model_len": "model.maxLength",
    "served_model_name": "model.servedNames",
    "max_batch_size": "batching.maxSequences",
    "max_num_tokens": "batching.maxBatchTokens",
    "max_seq_len": "model.maxLength",
    "gpt_model_path": "model.source",
    "gpt_model_type": "nothing: batches are formed in flight",
    "kv_cache_free_gpu_mem_fraction": "kvCache.memoryPercent",
    "adapters": "engine.vllm.adapters",
    "enable_lora": "engine.vllm.adapters",
    "max_lora_rank": "engine.vllm.maxAdapterRank",
    "max_loras": "engine.vllm.maxActiveAdapters",
    "speculative_model": "engine.vllm.speculative",
    "num_speculative_tokens": "engine.vllm.speculative",
    "triton_config": "nothing: the operator chooses it",
}
"""Engine parameters that the operator renders from the spec, and the field that sets each."""

NODE_PARAMETERS: Final = (
    "nnodes",
    "node_rank",
    "master_addr",
    "master_port",
    "distributed_executor_backend",
    "data_parallel_size",
)
"""Arguments of vLLM that follow from `parallelism.nodes`, where it is above 1."""

_NODE_LIST = "[" + ", ".join(f"'{key}'" for key in NODE_PARAMETERS) + "]"
_OWNED_LIST = "[" + ", ".join(f"'{key}'" for key in OWNED_PARAMETERS) + "]"
_OWNED_MAP = "{" + ", ".join(f"'{key}': '{field}'" for key, field in OWNED_PARAMETERS.items()) + "}"
_OFFENDER = f"self.parameters.filter(k, k in {_OWNED_LIST})[0]"


class Backend(StrEnum):
    """The library that computes."""

    TORCH = "torch"
    VLLM = "vllm"
    TENSORRTLLM = "tensorrtllm"


NATIVE_BACKENDS: Final = frozenset({Backend.TORCH, Backend.VLLM})
"""Backends that have an engine of ours (`model_repository/<backend>`)."""


class Driver(StrEnum):
    """Who drives the backend inside Triton: this project's engine, or NVIDIA's stock backend."""

    NATIVE = "Native"
    NVIDIA = "Nvidia"


class Parallelism(ApiModel):
    """How one replica is split; GPUs per replica = tensor * pipeline, as many on each of its nodes."""

    tensor: Annotated[int, Field(ge=1, le=64, description="Accelerators that share each layer.")] = 1
    pipeline: Annotated[int, Field(ge=1, le=64, description="Groups of accelerators that share the layers.")] = 1
    nodes: Annotated[
        int,
        Field(
            ge=1,
            le=16,
            description="Pods of one replica, commonly each on a node of its own. Above 1: backend vllm with driver "
            "Native, and LeaderWorkerSet in the cluster.",
        ),
    ] = 1

    @property
    def accelerators(self) -> int:
        """Accelerators of one replica."""
        return self.tensor * self.pipeline

    rules = (
        Rule(
            code="own-parallelism-total",
            expression="self.tensor * self.pipeline <= 64",
            message='"tensor %d times pipeline %d is more than 64 accelerators in one replica: lower one of them"'
            ".format([self.tensor, self.pipeline])",
        ),
        Rule(
            code="own-nodes-share",
            expression="self.tensor * self.pipeline % self.nodes == 0",
            message='"tensor %d times pipeline %d is no multiple of %d nodes, and each takes as many accelerators: '
            'lower nodes, or raise tensor or pipeline".format([self.tensor, self.pipeline, self.nodes])',
            field_path=".nodes",
        ),
    )


class TorchOptions(ApiModel):
    """What only the torch backend knows."""

    length_buckets: Annotated[
        list[Annotated[int, Field(ge=1, le=10_485_760)]],
        Field(
            max_length=32,
            description="Upper ends of prompt-length buckets in tokens, ascending. Prompts of one step that are in the "
            "same bucket and nearly as long attend together.",
        ),
    ] = [32, 64, 128, 256, 512, 1024]

    rules = (
        Rule(
            code="own-length-buckets",
            expression="self.lengthBuckets.isSorted() "
            "&& self.lengthBuckets.all(a, self.lengthBuckets.exists_one(b, b == a))",
            message='"length buckets must ascend without repeats: write them as [32, 64, 128]"',
            field_path=".lengthBuckets",
        ),
    )


class EngineSpec(ApiModel):
    """The engine: the Triton model that holds the weights."""

    backend: Annotated[Backend, Field(description="The library that computes.")] = Backend.TORCH
    driver: Annotated[
        Driver,
        Field(
            description="Native: this project's engine behind the gate, which queues, orders and batches. "
            "Nvidia: the stock backend without a gate. It takes requests at once, so there are no modes, delay, "
            "priorities, queue limits, chat templates and no OpenAI endpoint; only replicas are tuned."
        ),
    ] = Driver.NATIVE
    image: Annotated[
        str | None, Field(min_length=1, max_length=512, description="Triton image. Omitted: the fleet's default.")
    ] = None
    parallelism: Parallelism = Parallelism()
    parameters: Annotated[
        dict[Annotated[str, Field(max_length=128)], Annotated[str, Field(max_length=2048)]],
        Field(max_length=64, description="Passed to the backend as they are, unless the operator owns the key."),
    ] = {}
    torch: TorchOptions | None = None
    vllm: VllmOptions | None = None
    tensorrtllm: TensorRTLLMOptions | None = None

    rules = (
        Rule(
            code="own-driver-torch",
            expression="self.driver != 'Nvidia' || self.backend != 'torch'",
            message='"torch has no stock driver for language models: write driver: Native, or another backend"',
            field_path=".driver",
        ),
        Rule(
            code="own-driver-tensorrtllm",
            expression="self.driver != 'Native' || self.backend != 'tensorrtllm'",
            message='"tensorrtllm runs only on its stock driver: write driver: Nvidia"',
            field_path=".driver",
        ),
        Rule(
            code="own-torch-options",
            expression="!has(self.torch) || self.backend == 'torch'",
            message='"engine.torch means nothing to backend %s: remove it, or write backend: torch"'
            ".format([self.backend])",
            field_path=".torch",
        ),
        Rule(
            code="own-vllm-options",
            expression="!has(self.vllm) || self.backend == 'vllm'",
            message='"engine.vllm means nothing to backend %s: remove it, or write backend: vllm"'
            ".format([self.backend])",
            field_path=".vllm",
        ),
        Rule(
            code="own-tensorrtllm-options",
            expression="!has(self.tensorrtllm) || self.backend == 'tensorrtllm'",
            message='"engine.tensorrtllm means nothing to backend %s: remove it, or write backend: tensorrtllm with '
            'driver: Nvidia".format([self.backend])',
            field_path=".tensorrtllm",
        ),
        Rule(
            code="own-torch-parallelism",
            expression="self.backend != 'torch' || (self.parallelism.tensor == 1 && self.parallelism.pipeline == 1)",
            message='"the torch engine runs on one accelerator: write tensor: 1 and pipeline: 1, or backend: vllm"',
            field_path=".parallelism",
        ),
        Rule(
            code="own-nodes-backend",
            expression="self.parallelism.nodes == 1 || (self.backend == 'vllm' && self.driver == 'Native')",
            message='"backend %s with driver %s runs on one node: write nodes: 1, or backend: vllm with driver: Native"'
            ".format([self.backend, self.driver])",
            field_path=".parallelism.nodes",
        ),
        Rule(
            code="own-nodes-executor",
            expression="self.parallelism.nodes == 1 || !has(self.parameters) || "
            f"self.parameters.all(k, !(k in {_NODE_LIST}))",
            message='"over several nodes the operator says how vLLM\'s processes find each other: remove parameter %s"'
            f".format([self.parameters.filter(k, k in {_NODE_LIST})[0]])",
            field_path=".parameters",
        ),
        Rule(
            code="own-image-form",
            expression="!has(self.image) || !self.image.contains(' ')",
            message='"an image has no spaces: write it as registry/name:tag"',
            field_path=".image",
        ),
        Rule(
            code="own-engine-parameters",
            expression=f"!has(self.parameters) || self.parameters.all(k, !(k in {_OWNED_LIST}))",
            message=f'"the operator sets parameter %s itself: remove it; its field is %s"'
            f".format([{_OFFENDER}, {_OWNED_MAP}[{_OFFENDER}]])",
            field_path=".parameters",
        ),
    )
