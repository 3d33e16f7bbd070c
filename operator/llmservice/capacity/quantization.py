"""How weights are stored: bits of one weight, and with which type they can be computed."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from llmservice.api.model import Dtype


class Quantization(StrEnum):
    """The form of the linear layers' weights; embeddings, output layer and norms stay as they are in all of them."""

    NONE = "none"
    FP8 = "fp8"
    INT8 = "int8"
    AWQ = "awq"
    GPTQ = "gptq"
    GPTQ_INT8 = "gptq_int8"

    @property
    def words(self) -> str:
        """How a message calls it."""
        return _WORDS[self]


_WORDS: Final = {
    Quantization.NONE: "unquantised",
    Quantization.FP8: "fp8",
    Quantization.INT8: "int8",
    Quantization.AWQ: "AWQ int4",
    Quantization.GPTQ: "GPTQ int4",
    Quantization.GPTQ_INT8: "GPTQ int8",
}

_GROUP: Final = 128
"""Weights that share a scale; what AWQ and GPTQ files nearly always have (`q_group_size`, `group_size`)."""

_BITS: Final[Mapping[Quantization, float]] = {
    # Scales of fp8 and int8 are one per row or per block of 128 x 128: below a thousandth.
    Quantization.FP8: 8,
    Quantization.INT8: 8,
    # A group has a 16-bit scale and a zero point as wide as a weight (AutoAWQ and AutoGPTQ file formats).
    Quantization.AWQ: 4 + (16 + 4) / _GROUP,
    Quantization.GPTQ: 4 + (16 + 4) / _GROUP,
    Quantization.GPTQ_INT8: 8 + (16 + 8) / _GROUP,
}

HALF_TYPES: Final = frozenset({Dtype.AUTO, Dtype.FLOAT16, Dtype.BFLOAT16})
"""Every kernel for quantised weights computes in 16 bits (vLLM, `get_supported_act_dtypes` of each method)."""


def bits_per_weight(quantization: Quantization, dtype_bytes: int) -> float:
    """Bits that one weight of a linear layer takes, scales included."""
    return _BITS.get(quantization, 8 * dtype_bytes)


_NAMED: Final = (
    ("-gptq-int8", Quantization.GPTQ_INT8),
    ("-gptq-int4", Quantization.GPTQ),
    ("-awq-int4", Quantization.AWQ),
    ("-gptq", Quantization.GPTQ),
    ("-awq", Quantization.AWQ),
    ("-fp8-dynamic", Quantization.FP8),
    ("-fp8", Quantization.FP8),
    ("-quantized.w8a8", Quantization.INT8),
)


def split_name(name: str) -> tuple[str, Quantization]:
    """A repository's name without the suffix that tells its quantisation, and the quantisation; both lower case.

    Publishers name quantised copies so: `Qwen2.5-7B-Instruct-AWQ`, `Llama-2-13B-chat-GPTQ`.
    """
    lowered = name.lower()
    for suffix, quantization in _NAMED:
        if lowered.endswith(suffix):
            return lowered.removesuffix(suffix), quantization
    return lowered, Quantization.NONE


def quantization_named(name: str) -> Quantization | None:
    """The quantisation that vLLM's option `quantization` names, such as `awq_marlin`; None for one not known here."""
    stem = name.lower().removesuffix("_marlin")
    return Quantization(stem) if stem in tuple(Quantization) else None


def quantization_of(config: Mapping[str, Any]) -> Quantization:
    """The quantisation in a `quantization_config` of a config.json. Raises ValueError for one not known here."""
    method = str(config.get("quant_method", "")).lower()
    bits = int(config.get("bits") or config.get("w_bit") or 4)
    if method in ("awq", "gptq"):
        return Quantization.GPTQ_INT8 if (method, bits) == ("gptq", 8) else Quantization(method)
    if method in ("fp8", "fbgemm_fp8"):
        return Quantization.FP8
    if method == "compressed-tensors":
        return _of_compressed_tensors(config)
    raise ValueError(f"quantisation method {method or '(none)'} is not known")


def _of_compressed_tensors(config: Mapping[str, Any]) -> Quantization:
    groups = [group.get("weights") or {} for group in (config.get("config_groups") or {}).values()]
    for weights in groups:
        bits, kind = int(weights.get("num_bits", 0)), str(weights.get("type", ""))
        if bits == 8:
            return Quantization.FP8 if kind == "float" else Quantization.INT8
        if bits == 4 and kind == "int":
            return Quantization.GPTQ
    raise ValueError("compressed-tensors with weights of neither 8 nor 4 bits are not known")
