"""The memory plan of one accelerator: what weights and everything else take, and how many tokens fit beside them.

A replica's accelerators are alike except for where a pipeline puts the embeddings, so the fullest one is planned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from llmservice.api.engine import Backend, Parallelism
from llmservice.capacity.architecture import Model
from llmservice.capacity.extras import NO_EXTRAS, Extras, adapter_numbers, draft_kv_numbers, head_parameters
from llmservice.capacity.quantity import GIB
from llmservice.capacity.quantization import Quantization, bits_per_weight

_MIB: Final = 2**20

CONTEXT_BYTES: Final = 551 * _MIB
"""CUDA context, cuBLAS and kernels of one process: 551 MiB (aiconfigurator 0.12, `other_mem` before its safety
margin); KAITO measured 0.6 GiB at most on vLLM 0.10."""

COMMUNICATION_BYTES: Final = {1: 0, 2: 342 * _MIB, 4: 392 * _MIB, 8: 392 * _MIB}
"""NCCL's buffers by accelerators that share a layer (aiconfigurator 0.12, `nccl_mem` of every GPU)."""

GRAPH_BYTES: Final = GIB
"""CUDA graphs, sampler and kernel workspaces: vLLM logs 0.1 to 1.0 GiB ("Graph capturing finished … took 0.61 GiB")."""

FRAGMENTATION_BYTES: Final = 1920 * _MIB
"""What the allocator may hold without using it. With graphs and context it makes 3.4 GiB, where aiconfigurator reserves
3.5 for safe deployments and counts less for activations; a promise kept is worth more here than the last GiB."""

SMALL_SHARE: Final = 0.08
"""Of a small accelerator (a MIG slice of 5 GiB) no more than this is reserved for fragmentation, and half of it for
graphs, whose sizes follow the batches that fit."""

CPU_PROCESS_BYTES: Final = 632 * _MIB
"""Triton, two gates (as while a reload lasts) and the torch engine with their libraries, without weights and cache: of
a serving SmolLM2 they are 35, 51 and 546 MiB resident (`smaps_rollup`); when it takes its cache the engine has 539
(`make bench-capacity`). What a step computes with lies outside the share."""

VLLM_CPU_BYTES: Final = 2496 * _MIB
"""The same with vLLM: 85 MiB for Triton and two gates, 875 for the driver's process, and 1,536 for vLLM's engine core
and worker (`PROCESSES_BYTES` of `llmvllm/cpu.py`, which keeps as much)."""

BLOCK_TOKENS: Final = 16
"""Tokens in one block of the cache, in the torch engine and by default in vLLM."""
VLLM_CPU_BLOCK_TOKENS: Final = 128
"""The same in vLLM on a CPU (`BLOCK_SIZE` of `llmvllm/cpu.py`): a short sequence takes all of it."""


@dataclass(frozen=True)
class Layout:
    """What decides the memory of one engine, besides the model: types, split, and the share it may take.

    `memory_bytes` is of one accelerator. `step_tokens` is the most that one step computes,
    `kv_scale_bytes` what stands beside each cached key and value, `extras` what the engine holds beside the model.
    `instances` engines share the accelerator evenly.
    """

    memory_bytes: int
    memory_percent: int
    dtype_bytes: int
    kv_bytes: int
    quantization: Quantization
    parallelism: Parallelism
    backend: Backend
    step_tokens: int
    kv_scale_bytes: int = 0
    is_cpu: bool = False
    extras: Extras = NO_EXTRAS
    instances: int = 1

    @property
    def accelerators(self) -> int:
        """Accelerators of one replica; one for CPU, which is one pool of memory."""
        return 1 if self.is_cpu else self.parallelism.accelerators

    @property
    def tensor(self) -> int:
        """Accelerators that share each layer."""
        return 1 if self.is_cpu else self.parallelism.tensor

    @property
    def pipeline(self) -> int:
        """Stages that share the layers."""
        return 1 if self.is_cpu else self.parallelism.pipeline

    @property
    def block_tokens(self) -> int:
        """Tokens in one block of the cache."""
        return VLLM_CPU_BLOCK_TOKENS if self.is_cpu and self.backend is Backend.VLLM else BLOCK_TOKENS

    @property
    def whole_budget_bytes(self) -> int:
        """What all instances of the engine together may take of one accelerator."""
        return self.memory_bytes * self.memory_percent // 100

    @property
    def budget_bytes(self) -> int:
        """What one instance of the engine may take of one accelerator."""
        return self.whole_budget_bytes // self.instances


@dataclass(frozen=True)
class Memory:
    """Bytes on the fullest accelerator by use, and what is left for keys and values.

    `kv_token_bytes` is one token in every layer there; `total_weights_bytes` are of the whole replica.
    """

    weights_bytes: int
    total_weights_bytes: int
    context_bytes: int
    communication_bytes: int
    activation_bytes: int
    graph_bytes: int
    reserve_bytes: int
    kv_token_bytes: int
    kv_budget_bytes: int
    adapter_bytes: int = 0
    draft_bytes: int = 0

    @property
    def held_bytes(self) -> int:
        """What is loaded: weights, room for adapters, and the proposing model."""
        return self.weights_bytes + self.adapter_bytes + self.draft_bytes

    @property
    def overhead_bytes(self) -> int:
        """Everything that is neither weights nor cache."""
        return (
            self.context_bytes
            + self.communication_bytes
            + self.activation_bytes
            + self.graph_bytes
            + self.reserve_bytes
        )

    @property
    def engine_bytes(self) -> int:
        """What one instance of the engine takes without its cache."""
        return self.held_bytes + self.overhead_bytes


def measure(model: Model, layout: Layout) -> Memory:
    """The memory of the fullest accelerator: `cache = share · memory - weights - overhead`; never below zero."""
    weights = stage_weights_bytes(model, layout)
    adapters, draft = adapter_bytes(model, layout), draft_bytes(model, layout)
    if layout.is_cpu:
        overhead = (VLLM_CPU_BYTES if layout.backend is Backend.VLLM else CPU_PROCESS_BYTES, 0, 0, 0, 0)
    else:
        small = int(layout.memory_bytes * SMALL_SHARE)
        overhead = (
            CONTEXT_BYTES,
            communication_bytes(layout.tensor),
            activation_bytes(model, layout),
            min(GRAPH_BYTES, small // 2),
            min(FRAGMENTATION_BYTES, small),
        )
    return Memory(
        weights,
        total_weights_bytes(model, layout),
        *overhead,
        kv_token_bytes=sequence_bytes(model, layout, 1),
        kv_budget_bytes=max(0, layout.budget_bytes - weights - adapters - draft - sum(overhead)),
        adapter_bytes=adapters,
        draft_bytes=draft,
    )


def adapter_bytes(model: Model, layout: Layout) -> int:
    """Slots for the adapters of one step, in the type that the model computes in, on the fullest accelerator."""
    ranks = layout.extras.adapter_slots * layout.extras.adapter_rank
    return ranks * adapter_numbers(model, layout.tensor, stage_layers(model, layout)) * layout.dtype_bytes


def draft_bytes(model: Model, layout: Layout) -> int:
    """Weights of the proposing model, split over the accelerators of a layer; it has one stage."""
    draft = layout.extras.draft
    if draft is not None:
        return _weights(draft, replace(layout, quantization=draft.quantization), draft.layers, 1)
    return head_parameters(model, layout.extras.method, layout.tensor) * layout.dtype_bytes


def communication_bytes(tensor: int) -> int:
    """NCCL's buffers on each of `tensor` accelerators; between the known counts, those of the next larger."""
    return next((size for known, size in COMMUNICATION_BYTES.items() if tensor <= known), COMMUNICATION_BYTES[8])


def stage_layers(model: Model, layout: Layout) -> int:
    """Layers of the longest pipeline stage."""
    return -(-model.layers // layout.pipeline)


def stage_weights_bytes(model: Model, layout: Layout) -> int:
    """Weights on the fullest accelerator: a stage's layers, and one copy of the embeddings unless all are there."""
    ends = 1 if layout.pipeline == 1 else 0.5 if not model.tied else 1
    return _weights(model, layout, stage_layers(model, layout), ends)


def total_weights_bytes(model: Model, layout: Layout) -> int:
    """Weights of a whole replica, what is repeated on each accelerator counted each time."""
    ends = 2 if model.tied and layout.pipeline > 1 else 1
    return _weights(model, layout, model.layers, ends) * layout.tensor


def _weights(model: Model, layout: Layout, layers: int, ends: float) -> int:
    """Bytes of `layers` layers and `ends` times the embeddings on one accelerator."""
    dense = min(layers, model.experts.dense_layers) if model.experts else 0
    linear, plain = model.layer_parameters(layout.tensor)
    dense_linear, dense_plain = model.layer_parameters(layout.tensor, dense=True)
    packed = (layers - dense) * linear + dense * dense_linear
    whole = (layers - dense) * plain + dense * dense_plain + model.hidden + model.unshaped_parameters
    whole += int(ends * model.embedding_parameters) // layout.tensor
    if layout.is_cpu and layout.backend is Backend.TORCH and model.tied:
        whole += model.embedding_parameters  # laid out a second time for oneDNN, as the output layer
    bits = bits_per_weight(layout.quantization, layout.dtype_bytes)
    return int(packed * bits / 8) + whole * layout.dtype_bytes


def sequence_bytes(model: Model, layout: Layout, length: int) -> int:
    """Bytes of keys and values of one sequence of `length` tokens, on the fullest accelerator, the draft's included."""
    layers = stage_layers(model, layout)
    # The torch engine's blocks hold every layer, so a window that slides frees none of them.
    whole = layout.backend is Backend.TORCH
    layer_tokens = layers * length if whole else model.cached_layer_tokens(length, layers)
    scales = model.kv_vectors(layout.tensor) * layout.kv_scale_bytes
    draft = length * draft_kv_numbers(model, layout.extras, layout.tensor) * layout.kv_bytes
    return layer_tokens * (model.kv_numbers(layout.tensor) * layout.kv_bytes + scales) + draft


def activation_bytes(model: Model, layout: Layout) -> int:
    """Peak of what one step computes with: the residual stream twice, and the widest feed-forward layer.

    `step_tokens · bytes · (2 · hidden + 3 · intermediate / tensor)`: gate, up and their product live at once. With
    experts each token passes `per_token` of them, and their inputs and outputs are kept (vLLM, `fused_experts`). For
    Llama this gives 12.5 · hidden at one accelerator, where aiconfigurator 0.12 has 11 (`ACTIVATION_COEFFICIENTS`).
    """
    width = (3 if model.gated else 2) * model.intermediate
    kept = 0
    if model.experts:
        experts = model.experts
        width = 3 * (experts.per_token * experts.intermediate + experts.shared)
        kept = 2 * experts.per_token * model.hidden
    return layout.step_tokens * layout.dtype_bytes * (2 * model.hidden + kept + width // layout.tensor)
