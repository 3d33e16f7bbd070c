"""A Hugging Face folder -> the model's weights on the device, and what the processor offers."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch

from llmtorch import native_library
from llmtorch.config import ModelConfig, ModelFormatError
from llmtorch.decode_graphs import Capturer, CudaCapturer, DecodeGraphs
from llmtorch.float8 import FP8
from llmtorch.kv_cache import KVCache, number_of_blocks
from llmtorch.model import CausalLM
from llmtorch.native_decoder import NativeDecoder, suits
from llmtorch.options import KERNELS, EngineOptions, OptionError
from llmtorch.runner import NativeRunner, Runner, TorchRunner
from llmtorch.weight_files import read_weights

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def choose_device(name: str) -> torch.device:
    """The device of the options; `auto` is the first CUDA device where there is one. Raises `OptionError`."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise OptionError(f"device {name!r} is unknown: write cpu, cuda or cuda:N") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise OptionError(f"device {name!r} is not there: torch sees no CUDA device; write cpu")
    return device


def choose_dtype(name: str, config: ModelConfig, device: torch.device) -> torch.dtype:
    """The type to compute in. `auto` is the model's own on a GPU, and on a CPU what it is fastest in.

    Raises `OptionError`.
    """
    if name == "auto":
        return cpu_dtype() if device.type == "cpu" else DTYPES.get(config.dtype, torch.float16)
    if name not in DTYPES:
        raise OptionError(f"dtype {name!r} is unknown: write auto or one of {', '.join(DTYPES)}")
    return DTYPES[name]


def cpu_dtype(capabilities: Mapping[str, object] | None = None) -> torch.dtype:
    """bfloat16 where the processor multiplies in it (AVX-512 BF16, AMX), else float32: emulated it is far slower."""
    found = torch.cpu.get_capabilities() if capabilities is None else capabilities
    return torch.bfloat16 if found.get("avx512_bf16") or found.get("amx_bf16") else torch.float32


def choose_kv_dtype(name: str, dtype: torch.dtype) -> torch.dtype:
    """The type of the KV cache; `Auto` is that of the model. Raises `OptionError` for one not supported."""
    if name in ("Auto", "auto"):
        return dtype
    if name == "fp8_e4m3":
        return FP8
    raise OptionError(
        f"KV cache dtype {name!r} is not supported by the torch engine: set spec.kvCache.dtype to Auto or fp8_e4m3"
    )


def load_model(options: EngineOptions, config: ModelConfig, max_length: int, device: torch.device) -> CausalLM:
    """Reads the weights of `options.model_path`. Raises `ModelFormatError` when files or tensors are missing."""
    weights = read_weights(options.model_path, choose_dtype(options.dtype, config, device), device)
    with _naming_what_lacks(options.model_path):
        return CausalLM(config, weights, max_length)


def load_runner(
    options: EngineOptions, config: ModelConfig, max_length: int, device: torch.device
) -> tuple[Runner, KVCache]:
    """The model behind its cache, by the compiled kernels where they can and the options let them.

    Raises `OptionError`, and `ModelFormatError` when files or tensors are missing.
    """
    dtype = choose_dtype(options.dtype, config, device)
    library = _kernels(options.kernels, config, dtype, device)
    with _naming_what_lacks(options.model_path):
        weights = read_weights(options.model_path, dtype, device)
        model: CausalLM | NativeDecoder
        if library is None:
            model = CausalLM(config, weights, max_length)
        else:
            threads = options.threads or processor_count()
            model = NativeDecoder(library, config, weights, max_length, threads, options.block_size)
        del weights
        kv_dtype = choose_kv_dtype(options.kv_dtype, dtype)
        num_blocks = number_of_blocks(options, config, max_length, kv_dtype, device)
        capturer = choose_capturer(options, device)
        cache = KVCache(config, num_blocks, options.block_size, kv_dtype, device, spare=0 if capturer is None else 1)
        if isinstance(model, CausalLM):
            buckets = () if cache.layers[0].rounds else options.length_buckets
            graphs = None
            if capturer is not None:
                graphs = DecodeGraphs(model, cache, capturer, device, options.sequences, max_length)
            return TorchRunner(model, cache, device, buckets, graphs), cache
        model.attach(cache)
        return NativeRunner(model, options.token_budget, options.sequences), cache


def choose_capturer(options: EngineOptions, device: torch.device) -> Capturer | None:
    """What records decoding steps; None where they are computed operator by operator."""
    return CudaCapturer(device) if options.cuda_graphs and device.type == "cuda" else None


def _kernels(name: str, config: ModelConfig, dtype: torch.dtype, device: torch.device) -> ctypes.CDLL | None:
    if name not in KERNELS:
        raise OptionError(f"kernels {name!r} are unknown: write one of {', '.join(KERNELS)}")
    library = native_library.load(dtype) if name != "torch" and device.type == "cpu" and suits(config) else None
    if library is None and name == "native":
        raise OptionError(
            f"kernels native: none are compiled for {dtype} on this processor (the log says why): write auto"
        )
    return library


@contextlib.contextmanager
def _naming_what_lacks(folder: Path) -> Iterator[None]:
    try:
        yield
    except KeyError as error:
        raise ModelFormatError(
            f"{folder} lacks the tensor {error.args[0]}: its config.json and weights are not of one model"
        ) from error


def processor_count(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Cores this process may use: its affinity, bounded by the container's CPU limit (cgroup v2)."""
    cores = len(os.sched_getaffinity(0))
    limit = cgroup / "cpu.max"
    if limit.is_file():
        quota, period = limit.read_text(encoding="ascii").split()
        if quota != "max":
            cores = min(cores, max(1, round(int(quota) / int(period))))
    return cores
