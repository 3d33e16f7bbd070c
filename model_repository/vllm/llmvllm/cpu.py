"""What vLLM is told on a CPU: the type to compute in, how much KV cache, and room for adapters.

Left to itself, vLLM takes `gpu_memory_utilization` of the whole host for its cache, whatever its sequences can fill,
and computes in bfloat16 whatever the model's files say, also where the processor only emulates it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from llmvllm.options import EngineOptions, OptionError

BLOCK_SIZE: Final = 128  # vLLM's on a CPU
BFLOAT16_FLAGS: Final = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
ITEM_BYTES: Final = {"float32": 4, "float16": 2, "bfloat16": 2}
DEFAULT_LENGTH: Final = 2048
PROCESSES_BYTES: Final = 1536 * 2**20
"""What vLLM's own processes take that start later, without weights and cache: engine core and worker, 678 and 992 MiB,
less the 141 that this process then shares with them (proportional set sizes; vLLM 0.32, eager, SmolLM2)."""


def on_cpu(options: EngineOptions, flags: frozenset[str], memory: tuple[int, int]) -> EngineOptions:
    """The options with what a CPU needs; what the user asked for stays, but for `max_loras`.

    `flags` are the processor's, `memory` the bytes free and in all. Raises `OptionError` when not even one sequence of
    the longest length fits.
    """
    config = read_config(options.model_path)
    options = _with_empty_slot(options)
    if options.dtype == "auto":
        full = config.get("dtype", config.get("torch_dtype")) == "float32" or not flags & BFLOAT16_FLAGS
        options = replace(options, dtype="float32" if full else "bfloat16")
    if "kv_cache_memory_bytes" in options.arguments:
        return options
    per_token = bytes_per_token(config, ITEM_BYTES.get(options.dtype, 4) if options.kv_dtype == "Auto" else 1)
    if per_token is None:
        return options
    length = options.max_length or int(config.get("max_position_embeddings") or DEFAULT_LENGTH)
    sequence = -(-length // BLOCK_SIZE) * BLOCK_SIZE * per_token
    free, total = memory
    room = free - total * (100 - options.memory_percent) // 100 - _weights_bytes(options.model_path) - PROCESSES_BYTES
    if room < sequence:
        raise OptionError(
            f"no memory is left for the KV cache of one sequence of {length} tokens ({sequence / 1e9:.2f} GB; "
            f"{max(0, room) / 1e9:.2f} GB of {options.memory_percent} % are left beside weights and vLLM's processes): "
            "lower spec.model.maxLength, or raise spec.kvCache.memoryPercent or the memory limit"
        )
    # One block more, for vLLM keeps one that is never filled.
    wanted = options.sequences * sequence + BLOCK_SIZE * per_token
    return replace(options, arguments={**options.arguments, "kv_cache_memory_bytes": str(min(wanted, room))})


def _with_empty_slot(options: EngineOptions) -> EngineOptions:
    """One place for an adapter more than there are, which stays empty.

    To say that a row has no adapter vLLM gives it the index -1, and its operators for processors take that for the last
    place: a request of the model alone would be answered through the adapter there (vllm/lora/ops/torch_ops, 0.32).
    """
    if not options.adapters:
        return options
    return replace(options, arguments={**options.arguments, "max_loras": str(len(options.adapters) + 1)})


def read_config(folder: Path) -> dict[str, Any]:
    """The model's `config.json`; that of the language model, where it is one of several parts."""
    path = folder / "config.json"
    config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return dict(config.get("text_config") or config)


def bytes_per_token(config: dict[str, Any], item_bytes: int) -> int | None:
    """Keys and values of one token over all layers; None where the configuration does not say it in the usual way."""
    try:
        heads = int(config["num_attention_heads"])
        kv_heads = int(config.get("num_key_value_heads") or heads)
        size = int(config.get("head_dim") or int(config["hidden_size"]) // heads)
        return 2 * int(config["num_hidden_layers"]) * kv_heads * size * item_bytes
    except (KeyError, TypeError, ValueError):
        return None


def processor_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """What the processor says it can."""
    for line in cpuinfo.read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def _weights_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("*.safetensors"))
