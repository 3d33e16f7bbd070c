"""The shape of a model, from the `config.json` of its Hugging Face folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FAMILIES = {
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "mistral",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
}


class ModelFormatError(ValueError):
    """The folder holds no model that this engine can run; the message says what is wrong and what to use instead."""


@dataclass(frozen=True)
class RotaryScaling:
    """How a model stretches its positions. `kind` is `default`, `linear` or `llama3`."""

    kind: str = "default"
    factor: float = 1.0
    low_frequency_factor: float = 1.0
    high_frequency_factor: float = 4.0
    original_max_length: int = 8192


@dataclass(frozen=True)
class ModelConfig:
    """What the Llama family differs in: sizes, biases, norms of queries and keys, windows, tied embeddings.

    `windows` says for each layer how many tokens a token sees, itself included; None is all before it.
    """

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    max_length: int
    norm_epsilon: float
    rope_theta: float
    rope_scaling: RotaryScaling
    tied_embeddings: bool
    qkv_bias: bool
    output_bias: bool
    qk_norm: bool
    windows: tuple[int | None, ...]
    dtype: str

    @property
    def q_size(self) -> int:
        """Width of all query heads."""
        return self.num_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        """Width of all key heads, and of all value heads."""
        return self.num_kv_heads * self.head_dim

    @classmethod
    def load(cls, folder: Path) -> ModelConfig:
        """Reads `folder/config.json`. Raises `ModelFormatError`."""
        path = folder / "config.json"
        if not path.is_file():
            raise ModelFormatError(f"{folder} holds no config.json: give the folder of a Hugging Face model")
        try:
            return cls.parse(json.loads(path.read_text(encoding="utf-8")))
        except ModelFormatError:
            raise
        except KeyError as error:
            raise ModelFormatError(
                f"{path} has no {error}: take the config.json that belongs to the weights"
            ) from error
        except (TypeError, ValueError) as error:
            raise ModelFormatError(f"{path} is not the config of a model: {error}") from error

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> ModelConfig:
        """The config in a parsed `config.json`, of transformers 4 or 5. Raises `ModelFormatError`."""
        architecture = next(iter(raw.get("architectures") or ["none"]))
        family = FAMILIES.get(architecture)
        if family is None:
            raise ModelFormatError(
                f"architecture {architecture} is not one the torch engine runs: it runs {', '.join(FAMILIES)}; "
                "set spec.engine.backend to vllm"
            )
        if raw.get("hidden_act", "silu") != "silu":
            raise ModelFormatError(f"activation {raw['hidden_act']!r} is not supported by the torch engine, silu is")
        heads = int(raw["num_attention_heads"])
        bias = bool(raw.get("attention_bias", False))
        rope = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
        return cls(
            vocab_size=int(raw["vocab_size"]),
            hidden_size=int(raw["hidden_size"]),
            intermediate_size=int(raw["intermediate_size"]),
            num_layers=int(raw["num_hidden_layers"]),
            num_heads=heads,
            num_kv_heads=int(raw.get("num_key_value_heads") or heads),
            head_dim=int(raw.get("head_dim") or int(raw["hidden_size"]) // heads),
            max_length=int(raw["max_position_embeddings"]),
            norm_epsilon=float(raw["rms_norm_eps"]),
            rope_theta=float(rope.get("rope_theta") or raw.get("rope_theta") or 10000.0),
            rope_scaling=_rotary_scaling(rope),
            tied_embeddings=bool(raw.get("tie_word_embeddings", False)),
            qkv_bias=family == "qwen2" or bias,
            output_bias=family == "llama" and bias,
            qk_norm=family == "qwen3",
            windows=_windows(raw, family),
            dtype=str(raw.get("dtype") or raw.get("torch_dtype") or "float32"),
        )


def _rotary_scaling(rope: Mapping[str, Any]) -> RotaryScaling:
    kind = str(rope.get("rope_type") or rope.get("type") or "default")
    if kind not in ("default", "linear", "llama3"):
        raise ModelFormatError(
            f"rope scaling {kind!r} is not supported by the torch engine; default, linear and llama3 are"
        )
    return RotaryScaling(
        kind=kind,
        factor=float(rope.get("factor", 1.0)),
        low_frequency_factor=float(rope.get("low_freq_factor", 1.0)),
        high_frequency_factor=float(rope.get("high_freq_factor", 4.0)),
        original_max_length=int(rope.get("original_max_position_embeddings", 8192)),
    )


def _windows(raw: Mapping[str, Any], family: str) -> tuple[int | None, ...]:
    """Each layer's sliding window, as transformers' configurations say it.

    Mistral has it in all layers; Qwen only when `use_sliding_window` says so, from layer `max_window_layers` on or in
    those that `layer_types` names; Llama never.
    """
    layers = int(raw["num_hidden_layers"])
    window = raw.get("sliding_window")
    if family == "llama" or window is None or not raw.get("use_sliding_window", family == "mistral"):
        return (None,) * layers
    if int(window) >= int(raw["max_position_embeddings"]):
        return (None,) * layers
    kinds = raw.get("layer_types")
    if kinds is None:
        first = 0 if family == "mistral" else int(raw.get("max_window_layers", layers))
        kinds = ["sliding_attention" if layer >= first else "full_attention" for layer in range(layers)]
    return tuple(int(window) if kind == "sliding_attention" else None for kind in kinds)
