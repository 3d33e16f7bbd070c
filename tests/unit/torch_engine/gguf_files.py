"""Tiny GGUF files, made as llama.cpp's converter makes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf.constants import GGMLQuantizationType
from gguf.quants import quantize
from tokenizers import pre_tokenizers

from llmserving.gguf_folder import GLOBAL_TENSORS, LAYER_TENSORS
from tests.unit.torch_engine.tiny import SIZES, TEMPLATE, make_model

HEADS = {"attn_q": SIZES["num_attention_heads"], "attn_k": SIZES["num_key_value_heads"]}
SPECIAL = {"<end>": 256, "<start>": 257}


def permuted(rows: np.ndarray[Any, Any], heads: int) -> np.ndarray[Any, Any]:
    """Rows of query or key with rotary pairs side by side (llama.cpp, `LlamaModel.permute`)."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def gguf_tensors() -> dict[str, np.ndarray[Any, Any]]:
    """The tiny Llama's tensors under the names, and in the order of rows, of GGUF."""
    weights = {name: tensor.detach().numpy() for name, tensor in make_model("llama").state_dict().items()}
    named = {gguf_name: weights[name] for gguf_name, name in GLOBAL_TENSORS.items() if name != "lm_head.weight"}
    for layer in range(SIZES["num_hidden_layers"]):
        for part, name in LAYER_TENSORS.items():
            tensor = weights.get(f"model.layers.{layer}.{name}.weight")
            if tensor is not None:
                named[f"blk.{layer}.{part}.weight"] = permuted(tensor, HEADS[part]) if part in HEADS else tensor
    return named


def write_gguf(
    path: Path,
    quantization: GGMLQuantizationType | None = None,
    *,
    architecture: str = "llama",
    pre: str = "smollm",
    first_token: bool = False,
    more: Mapping[str, np.ndarray[Any, Any]] | None = None,
) -> Path:
    """The tiny Llama with a byte tokenizer; matrices whose rows divide into blocks of 32 are quantised if asked."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(SIZES["num_hidden_layers"])
    writer.add_context_length(SIZES["max_position_embeddings"])
    writer.add_embedding_length(SIZES["hidden_size"])
    writer.add_feed_forward_length(SIZES["intermediate_size"])
    writer.add_head_count(SIZES["num_attention_heads"])
    writer.add_head_count_kv(SIZES["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list([*sorted(pre_tokenizers.ByteLevel.alphabet()), *SPECIAL])
    writer.add_token_types([1] * 256 + [3, 3])
    writer.add_token_merges([])
    writer.add_eos_token_id(SPECIAL["<end>"])
    writer.add_bos_token_id(SPECIAL["<start>"])
    writer.add_add_bos_token(first_token)
    writer.add_chat_template(TEMPLATE)
    for name, tensor in (gguf_tensors() | dict(more or {})).items():
        if quantization is not None and tensor.ndim == 2 and tensor.shape[1] % 32 == 0:
            writer.add_tensor(name, quantize(tensor, quantization), raw_dtype=quantization)
        else:
            writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
