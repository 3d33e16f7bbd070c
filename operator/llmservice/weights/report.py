"""What the weights step found, for the operator: the termination message of its container, at most 4096 bytes.

`model_repository/llmserving/weights.py` writes the same for sources that are read inside the serving image.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

TERMINATION_LOG: Final = Path("/dev/termination-log")
MOST_BYTES: Final = 3800
"""Kubernetes cuts the message at 4096 bytes."""

CONFIG_KEYS: Final = (
    "architectures", "model_type", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "multi_query", "head_dim", "vocab_size", "max_position_embeddings", "tie_word_embeddings",
    "dtype", "torch_dtype", "sliding_window", "use_sliding_window", "sliding_window_pattern", "layer_types",
    "num_local_experts", "num_experts", "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size",
    "shared_expert_intermediate_size", "n_shared_experts", "first_k_dense_replace", "kv_lora_rank", "qk_rope_head_dim",
    "qk_nope_head_dim", "v_head_dim", "q_lora_rank",
)  # fmt: skip
"""What the capacity plan reads of a `config.json` (capacity/config_json.py)."""

QUANTIZATION_KEYS: Final = ("quant_method", "bits", "fmt", "quant_algo", "format", "config_groups", "load_in_4bit")


def model_facts(folder: Path) -> dict[str, Any]:
    """What the files of `folder` say of the model's shape: parts of config.json, and all numbers of its weights.

    Empty where the config cannot be read: then nothing is claimed.
    """
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        facts = {**_part(config), **({"text_config": _part(config["text_config"])} if _nested(config) else {})}
        return {"config": facts, "parameters": stored_parameters(folder)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def write_report(fields: Mapping[str, Any], path: Path = TERMINATION_LOG) -> None:
    """Writes the report where the kubelet reads it; too long a list of layers is left out."""
    if not path.exists():
        return
    said = dict(fields)
    text = _text(said)
    if len(text.encode()) > MOST_BYTES and "config" in said:
        said["config"] = {key: value for key, value in said["config"].items() if key != "layer_types"}
        text = _text(said)
    if len(text.encode()) > MOST_BYTES:
        text = _text({key: value for key, value in said.items() if key != "config"})
    path.write_text(text, encoding="utf-8")


def _text(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, separators=(",", ":"))


def _nested(config: Mapping[str, Any]) -> bool:
    return isinstance(config.get("text_config"), dict)


def _part(config: Mapping[str, Any]) -> dict[str, Any]:
    found = {key: config[key] for key in CONFIG_KEYS if config.get(key) is not None}
    quantized = config.get("quantization_config")
    if isinstance(quantized, dict):
        found["quantization_config"] = {key: quantized[key] for key in QUANTIZATION_KEYS if key in quantized}
    return found


def stored_parameters(folder: Path) -> int | None:
    """All numbers in the folder's safetensors files; None where there are none."""
    from llmservice.capacity.headers import safetensors_parameters

    total = 0
    for path in folder.glob("*.safetensors"):
        with path.open("rb") as file:
            total += safetensors_parameters(file)
    return total or None
