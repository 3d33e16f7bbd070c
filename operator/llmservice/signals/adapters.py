"""Which series say what, by engine. One table: everything that reads signals asks it.

Sources: our gate and engines, docs/architecture.md; Triton's own counters, server/docs/user_guide/metrics.md; NVIDIA's
vLLM backend, vllm_backend/src/utils/metrics.py; TensorRT-LLM, tensorrtllm_backend's custom_metrics_reporter.cc.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from llmservice.api.batching import BatchingMode
from llmservice.api.engine import Backend, Driver
from llmservice.api.service import LLMService

PENDING: Final = "nv_inference_pending_request_count"
BATCH_EXECUTIONS: Final = "triton_batch_executions"
BATCH_SECONDS: Final = "triton_batch_compute_seconds"
"""Triton's statistics by batch size, as `signals.statistics` makes series of them; no exporter has these names."""


class Who(StrEnum):
    """Whose `model` label a series carries."""

    GATE = "Gate"
    ENGINE = "Engine"


@dataclass(frozen=True)
class Selector:
    """Series of one name, told apart by their `model` label and, where there are several kinds, by one more label."""

    name: str
    who: Who = Who.GATE
    label: str = ""
    value: str = ""


@dataclass(frozen=True)
class Adapter:
    """Where each figure of one kind of engine is found; None: the engine does not say it.

    `queue` are gauges that add up to the requests that wait; `arrived` and `completed` are counters; `steps` and
    `step_seconds` carry the batch size in a label. Latencies are histograms in seconds.
    """

    name: str
    queue: tuple[Selector, ...]
    inside: tuple[Selector, ...]
    """Gauges of requests that are past the queue and not yet answered."""
    completed: Selector
    failed: tuple[Selector, ...]
    rejected: tuple[Selector, ...] = ()
    abandoned: tuple[Selector, ...] = ()
    """Counters of requests that ended for their client's sake: cancelled or not valid."""
    steps: Selector | None = None
    step_seconds: Selector | None = None
    batches: Selector | None = None
    latency: Selector | None = None
    time_to_first_token: Selector | None = None
    per_output_token: Selector | None = None
    queue_seconds: Selector | None = None
    prompt_tokens: Selector | None = None
    generated_tokens: Selector | None = None
    waiting: Selector | None = None
    running: Selector | None = None
    kv_usage: Selector | None = None
    counted: Selector | None = None
    executions: Selector | None = None
    compute_microseconds: Selector | None = None
    """Triton's counters by request, which weigh a batch by its size; so do `executions` by model."""
    statistics: bool = False
    """Whether Triton forms the batches and the model computes within its call, so that its statistics are t(b)."""
    load_seconds: Selector | None = None
    warm_up_seconds: Selector | None = None

    def names(self) -> frozenset[str]:
        """Every series it reads, histograms by their `_bucket`, `_sum` and `_count`."""
        fixed: list[Selector | None] = [*self.queue, *self.inside, self.completed, *self.failed, *self.rejected]
        fixed += [*self.abandoned, self.steps, self.step_seconds, self.batches, self.prompt_tokens]
        fixed += [self.generated_tokens, self.waiting, self.running, self.kv_usage]
        fixed += [self.counted, self.executions, self.compute_microseconds]
        fixed += [self.load_seconds, self.warm_up_seconds]
        plain = {selector.name for selector in fixed if selector is not None}
        histograms = (self.latency, self.time_to_first_token, self.per_output_token, self.queue_seconds)
        parts = {f"{one.name}_{part}" for one in histograms if one is not None for part in ("bucket", "sum", "count")}
        return frozenset(plain | parts)


def _outcome(value: str) -> Selector:
    return Selector("llm_gate_requests_total", label="outcome", value=value)


def _tokens(kind: str) -> Selector:
    return Selector("llm_engine_tokens_total", Who.ENGINE, "kind", kind)


def _trt(kind: str) -> Selector:
    return Selector("nv_trt_llm_request_metrics", Who.ENGINE, "request_type", kind)


NATIVE: Final = Adapter(
    name="native",
    queue=(Selector(PENDING), Selector("llm_gate_held_requests")),
    inside=(Selector("llm_gate_admitted_requests"),),
    completed=_outcome("completed"),
    failed=(_outcome("failed"),),
    rejected=(_outcome("rejected"),),
    abandoned=(_outcome("cancelled"), _outcome("invalid")),
    steps=Selector("llm_engine_steps_total", Who.ENGINE),
    step_seconds=Selector("llm_engine_step_seconds_total", Who.ENGINE),
    batches=Selector("llm_gate_batches_total"),
    latency=Selector("llm_request_latency_seconds"),
    time_to_first_token=Selector("llm_time_to_first_token_seconds"),
    per_output_token=Selector("llm_time_per_output_token_seconds"),
    queue_seconds=Selector("llm_gate_queue_seconds"),
    prompt_tokens=_tokens("prompt"),
    generated_tokens=_tokens("generated"),
    waiting=Selector("llm_engine_waiting_sequences", Who.ENGINE),
    running=Selector("llm_engine_running_sequences", Who.ENGINE),
    kv_usage=Selector("llm_engine_kv_cache_usage_ratio", Who.ENGINE),
    load_seconds=Selector("llm_engine_load_seconds", Who.ENGINE),
    warm_up_seconds=Selector("llm_engine_warm_up_seconds", Who.ENGINE),
)
"""Our gate before our engines, torch and vLLM: the engine takes no request of Triton's, so it counts for itself."""

_TRITON: Final = Adapter(
    name="triton",
    queue=(Selector(PENDING),),
    inside=(),
    completed=Selector("nv_inference_request_success"),
    failed=tuple(Selector("nv_inference_request_failure", label="reason", value=why) for why in ("BACKEND", "OTHER")),
    rejected=(Selector("nv_inference_request_failure", label="reason", value="REJECTED"),),
    abandoned=(Selector("nv_inference_request_failure", label="reason", value="CANCELED"),),
    counted=Selector("nv_inference_count"),
    executions=Selector("nv_inference_exec_count"),
    compute_microseconds=Selector("nv_inference_compute_infer_duration_us"),
)
"""What Triton counts for every model without a gate of ours; each stock engine adds what it says itself."""

NVIDIA_VLLM: Final = replace(
    _TRITON,
    name="nvidia-vllm",
    latency=Selector("vllm:e2e_request_latency_seconds"),
    time_to_first_token=Selector("vllm:time_to_first_token_seconds"),
    per_output_token=Selector("vllm:time_per_output_token_seconds"),
    prompt_tokens=Selector("vllm:prompt_tokens_total"),
    generated_tokens=Selector("vllm:generation_tokens_total"),
)
"""The stock driver takes every request at once, so Triton's queue is empty. It tells neither waiting nor KV use."""

TENSORRT_LLM: Final = replace(
    _TRITON,
    name="tensorrt-llm",
    queue=(*_TRITON.queue, _trt("waiting")),
    inside=(_trt("active"),),
    waiting=_trt("waiting"),
    running=_trt("active"),
    kv_usage=Selector("nv_trt_llm_kv_cache_block_metrics", Who.ENGINE, "kv_cache_block_type", "fraction"),
)

TRITON_BATCHES: Final = replace(
    _TRITON,
    name="triton-batches",
    steps=Selector(BATCH_EXECUTIONS),
    step_seconds=Selector(BATCH_SECONDS),
    statistics=True,
)
"""A model that takes Triton's own batches and computes one within its call: its statistics are exact t(b)."""


def with_statistics(adapter: Adapter) -> Adapter:
    """The adapter of a stock engine that runs the batches Triton forms to their end.

    In `Continuous` a stock engine takes each request at once and answers later: Triton then counts executions of one
    request that take no time (server#8463), which is nothing to learn from.
    """
    return replace(adapter, steps=TRITON_BATCHES.steps, step_seconds=TRITON_BATCHES.step_seconds, statistics=True)


_ADAPTERS: Final[Mapping[tuple[Backend, Driver], Adapter]] = {
    (Backend.TORCH, Driver.NATIVE): NATIVE,
    (Backend.VLLM, Driver.NATIVE): NATIVE,
    (Backend.VLLM, Driver.NVIDIA): NVIDIA_VLLM,
}


def adapter_of(service: LLMService) -> Adapter:
    """The adapter for a service's engine."""
    engine = service.spec.engine
    found = _ADAPTERS.get((engine.backend, engine.driver), TENSORRT_LLM)
    stock = engine.driver is Driver.NVIDIA
    return with_statistics(found) if stock and service.spec.batching.mode is not BatchingMode.CONTINUOUS else found
