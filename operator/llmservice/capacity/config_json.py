"""The architecture in a model's `config.json`, as transformers writes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmservice.api.model import Dtype
from llmservice.capacity.architecture import Experts, LatentAttention, Model
from llmservice.capacity.quantization import Quantization, quantization_of


class UnknownArchitectureError(ValueError):
    """A config does not say what the plan needs; the message names the missing key."""


_UNGATED = frozenset({"GPT2LMHeadModel", "GPTNeoXForCausalLM", "OPTForCausalLM", "PhiForCausalLM", "FalconForCausalLM"})
"""Feed-forward layers of two matrices instead of three."""

_BIASED = frozenset({"Qwen2ForCausalLM", "Qwen2MoeForCausalLM"})
"""Models whose queries, keys and values have a bias without their config saying so."""


def parse_config(name: str, config: Mapping[str, Any], parameters: int | None = None) -> Model:
    """The model that `config` describes; `parameters` is what the weights' index says in all, where it is known.

    A multimodal config has the language model under `text_config`. Raises UnknownArchitectureError.
    """
    text: Mapping[str, Any] = {**config, **(config.get("text_config") or {})}
    try:
        return _model(name, text, config.get("quantization_config") or {}, parameters)
    except KeyError as error:
        raise UnknownArchitectureError(f"its config.json has no {error}") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise UnknownArchitectureError(f"its config.json is not understood: {error}") from error


def _model(name: str, text: Mapping[str, Any], quantized: Mapping[str, Any], parameters: int | None) -> Model:
    architecture = next(iter(text.get("architectures") or ["unknown"]))
    heads, hidden, layers = (
        _count(text, "num_attention_heads"),
        _count(text, "hidden_size"),
        _count(text, "num_hidden_layers"),
    )
    latent = _latent(text)
    window, sliding = _sliding(text, layers)
    return Model(
        name=name,
        layers=layers,
        hidden=hidden,
        intermediate=int(text.get("intermediate_size") or 4 * hidden),
        heads=heads,
        kv_heads=int(text.get("num_key_value_heads") or (1 if text.get("multi_query") else heads)),
        head_size=latent.nope + latent.rope if latent else int(text.get("head_dim") or hidden // heads),
        vocab=_count(text, "vocab_size"),
        max_length=_count(text, "max_position_embeddings"),
        tied=bool(text.get("tie_word_embeddings", architecture.startswith("Gemma"))),
        qkv_bias=architecture in _BIASED,
        gated=architecture not in _UNGATED,
        dtype=_dtype(text),
        quantization=quantization_of(quantized) if quantized else Quantization.NONE,
        sliding_window=window,
        sliding_layers=sliding,
        experts=_experts(text, layers),
        latent=latent,
        # Packed weights are fewer numbers than there are parameters.
        stated_parameters=None if quantized else parameters,
    )


def _count(text: Mapping[str, Any], key: str) -> int:
    value = int(text[key])
    if value < 1:
        raise ValueError(f"{key} is {value}")
    return value


def _dtype(text: Mapping[str, Any]) -> Dtype:
    name = str(text.get("dtype") or text.get("torch_dtype") or "float32").removeprefix("torch.")
    return Dtype(name) if name in tuple(Dtype) else Dtype.AUTO


def _latent(text: Mapping[str, Any]) -> LatentAttention | None:
    if not text.get("kv_lora_rank"):
        return None
    return LatentAttention(
        latent=_count(text, "kv_lora_rank"),
        rope=_count(text, "qk_rope_head_dim"),
        nope=_count(text, "qk_nope_head_dim"),
        value=_count(text, "v_head_dim"),
        query_rank=int(text.get("q_lora_rank") or 0),
    )


def _sliding(text: Mapping[str, Any], layers: int) -> tuple[int, int]:
    """(window in tokens, layers that have it); (0, 0) where every layer sees everything."""
    window = int(text.get("sliding_window") or 0)
    longest = _count(text, "max_position_embeddings")
    if not window or window >= longest or text.get("use_sliding_window") is False:
        return 0, 0
    if kinds := text.get("layer_types"):
        return window, sum(kind == "sliding_attention" for kind in kinds)
    if pattern := int(text.get("sliding_window_pattern") or 0):  # every pattern-th layer sees everything
        return window, layers - layers // pattern
    kind = str(text.get("model_type"))
    if kind.startswith("gemma3"):
        return window, layers - layers // 6
    return window, layers // 2 if kind == "gemma2" else layers


def _experts(text: Mapping[str, Any], layers: int) -> Experts | None:
    count = next(
        (int(text[key]) for key in ("num_local_experts", "num_experts", "n_routed_experts") if text.get(key)), 0
    )
    if not count:
        return None
    each = int(text.get("moe_intermediate_size") or _count(text, "intermediate_size"))
    shared = int(text.get("shared_expert_intermediate_size") or each * int(text.get("n_shared_experts") or 0))
    dense = min(layers, int(text.get("first_k_dense_replace") or 0))
    return Experts(count, _count(text, "num_experts_per_tok"), each, shared, dense)
