"""A GGUF file -> a Hugging Face folder, so that one form of weights serves every engine.

Tensors are dequantised by the `gguf` package itself and streamed into `model.safetensors`, one at a time: neither torch
nor memory for the whole model is needed. Quantised tensors become float32 (exact), F16 and F32 stay as they are.
GGUF keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf.quants import dequantize

from llmserving.gguf_tokenizer import write_tokenizer
from llmserving.weight_progress import ExitCode, Progress, WeightsError

ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}

GLOBAL_TENSORS = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
LAYER_TENSORS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


class GGUFFields:
    """Typed access to the key-value part of a GGUF file."""

    def __init__(self, reader: gguf.GGUFReader, path: Path) -> None:
        self._reader = reader
        self._path = path
        self.architecture = str(self.need("general.architecture"))

    def get(self, key: str, default: Any = None) -> Any:
        """The value of `key`, or `default` when the file has none."""
        field = self._reader.get_field(key)
        return default if field is None else field.contents()

    def need(self, key: str) -> Any:
        """The value of `key`. Raises `WeightsError` naming key and file when it is not there."""
        value = self.get(key)
        if value is None:
            raise WeightsError(ExitCode.BAD_FORMAT, f"{self._path.name}: the GGUF file has no field {key}")
        return value

    def model(self, key: str, default: Any = None) -> Any:
        """The value of a key below the architecture's own prefix."""
        return self.get(f"{self.architecture}.{key}", default)


@dataclass(frozen=True)
class TargetTensor:
    """One tensor of the safetensors file: its name, its type there, its shape, and where it comes from."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    source: gguf.ReaderTensor
    rotary_heads: int = 0

    @property
    def size(self) -> int:
        """Bytes in the safetensors file."""
        return int(np.prod(self.shape, dtype=np.int64)) * (2 if self.dtype == "F16" else 4)


def convert(source: Path, folder: Path, progress: Progress, free_bytes: int | None = None) -> None:
    """Writes config, tokenizer and weights of the GGUF file `source` into the existing `folder`.

    Raises `WeightsError`: BAD_FORMAT for a file that is no GGUF or of a family that no engine here knows, DISK_FULL
    when `free_bytes` is less than the weights need.
    """
    try:
        reader = gguf.GGUFReader(source)
    except (ValueError, IndexError) as error:
        raise WeightsError(ExitCode.BAD_FORMAT, f"{source.name} is not a readable GGUF file: {error}") from error
    fields = GGUFFields(reader, source)
    if fields.architecture not in ARCHITECTURES:
        known = ", ".join(sorted(ARCHITECTURES))
        raise WeightsError(
            ExitCode.BAD_FORMAT,
            f"{source.name} is of family {fields.architecture!r}; GGUF files of {known} can be read",
        )
    tensors = list(target_tensors(reader, fields, source))
    needed = sum(tensor.size for tensor in tensors)
    if free_bytes is not None and free_bytes < needed:
        raise WeightsError(
            ExitCode.DISK_FULL,
            f"the weights of {source.name} need {needed / 1e9:.2f} GB, {free_bytes / 1e9:.2f} GB are free in {folder}",
        )
    config = model_config(fields, tied=all(tensor.name != "lm_head.weight" for tensor in tensors))
    write_json(folder / "config.json", config)
    write_json(folder / "generation_config.json", {k: v for k, v in config.items() if k.endswith("_token_id")})
    write_tokenizer(source, fields.get, folder)
    progress.begin("convert", needed)
    write_safetensors(folder / "model.safetensors", tensors, progress)


def model_config(fields: GGUFFields, *, tied: bool) -> dict[str, object]:
    """The `config.json` that transformers, vLLM and the torch engine read."""
    heads = int(fields.need(f"{fields.architecture}.attention.head_count"))
    hidden = int(fields.need(f"{fields.architecture}.embedding_length"))
    # The file holds the constant as float32; the shortest decimal that rounds to it is what the model was made with.
    epsilon = float(str(np.float32(fields.need(f"{fields.architecture}.attention.layer_norm_rms_epsilon"))))
    return {
        "architectures": [ARCHITECTURES[fields.architecture]],
        "model_type": fields.architecture,
        "hidden_act": "silu",
        "hidden_size": hidden,
        "intermediate_size": int(fields.need(f"{fields.architecture}.feed_forward_length")),
        "num_hidden_layers": int(fields.need(f"{fields.architecture}.block_count")),
        "num_attention_heads": heads,
        "num_key_value_heads": int(fields.model("attention.head_count_kv", heads)),
        "head_dim": int(fields.model("attention.key_length", hidden // heads)),
        "max_position_embeddings": int(fields.need(f"{fields.architecture}.context_length")),
        "rms_norm_eps": epsilon,
        "rope_theta": float(fields.model("rope.freq_base", 10000.0)),
        "tie_word_embeddings": tied,
        "torch_dtype": "float32",
        "vocab_size": len(fields.need("tokenizer.ggml.tokens")),
        "bos_token_id": fields.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": fields.get("tokenizer.ggml.eos_token_id"),
        "pad_token_id": fields.get("tokenizer.ggml.padding_token_id"),
    }


def target_tensors(reader: gguf.GGUFReader, fields: GGUFFields, path: Path) -> Iterator[TargetTensor]:
    """The tensors of the safetensors file, in the order of the GGUF file. Raises on a tensor without a known name."""
    rotary = {}
    if fields.architecture == "llama":
        heads = int(fields.need("llama.attention.head_count"))
        rotary = {"attn_q": heads, "attn_k": int(fields.model("attention.head_count_kv", heads))}
    for tensor in reader.tensors:
        block, _, rest = tensor.name.removeprefix("blk.").partition(".")
        part, _, kind = rest.rpartition(".")
        if tensor.name in GLOBAL_TENSORS:
            name = GLOBAL_TENSORS[tensor.name]
        elif tensor.name.startswith("blk.") and part in LAYER_TENSORS:
            name = f"model.layers.{block}.{LAYER_TENSORS[part]}.{kind}"
        else:
            raise WeightsError(
                ExitCode.BAD_FORMAT,
                f"{path.name}: tensor {tensor.name} is not known here; use the safetensors form",
            )
        half = tensor.tensor_type == gguf.GGMLQuantizationType.F16
        shape = tuple(int(size) for size in reversed(tensor.shape))
        yield TargetTensor(name, "F16" if half else "F32", shape, tensor, rotary.get(part, 0))


def values(tensor: TargetTensor) -> np.ndarray[Any, Any]:
    """The tensor dequantised, shaped, and in the row order of Hugging Face.

    For the llama family GGUF holds rows of query and key with the two halves of each rotary pair side by side; Hugging
    Face holds all first halves of a head, then all second halves.
    """
    raw = tensor.source
    data = raw.data if tensor.dtype == "F16" else dequantize(raw.data, raw.tensor_type)
    array = np.asarray(data).reshape(tensor.shape)
    if tensor.rotary_heads:
        pairs = array.shape[0] // tensor.rotary_heads // 2
        array = array.reshape(tensor.rotary_heads, pairs, 2, *array.shape[1:]).swapaxes(1, 2).reshape(tensor.shape)
    return np.ascontiguousarray(array)


def write_safetensors(path: Path, tensors: list[TargetTensor], progress: Progress) -> None:
    """Streams the tensors in the safetensors format: header length (u64), JSON header, data without gaps.

    Format: https://github.com/huggingface/safetensors#format.
    """
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for tensor in tensors:
        header[tensor.name] = {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + tensor.size],
        }
        offset += tensor.size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as out:
        out.write(len(text).to_bytes(8, "little"))
        out.write(text)
        for tensor in tensors:
            out.write(values(tensor).tobytes())
            progress.advance(tensor.size)


def write_json(path: Path, value: object) -> None:
    """One JSON file, readable by people."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
