"""What a model's own files say of it: config.json, safetensors and GGUF headers."""

from __future__ import annotations

import io
import json
import struct
from typing import Any

import pytest

from llmservice.api.model import Dtype
from llmservice.capacity.config_json import UnknownArchitectureError, parse_config
from llmservice.capacity.headers import read_gguf, safetensors_parameters
from llmservice.capacity.models import catalogue
from llmservice.capacity.quantization import Quantization

pytestmark = pytest.mark.unit
LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 131072,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "torch_dtype": "bfloat16",
    "vocab_size": 128256,
}
DEEPSEEK = {
    **LLAMA,
    "architectures": ["DeepseekV2ForCausalLM"],
    "hidden_size": 2048,
    "intermediate_size": 10944,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "vocab_size": 102400,
    "kv_lora_rank": 512,
    "q_lora_rank": None,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "n_routed_experts": 64,
    "num_experts_per_tok": 6,
    "n_shared_experts": 2,
    "moe_intermediate_size": 1408,
    "first_k_dense_replace": 1,
}


def test_a_config_gives_the_same_shape_as_the_catalogue() -> None:
    known = catalogue().repositories["meta-llama/llama-3.1-8b"]
    read = parse_config(known.name, LLAMA)
    assert read.shaped_parameters == known.parameters
    assert read.kv_numbers(tensor=1) == known.kv_numbers(tensor=1)
    assert read.max_length == known.max_length


def test_latent_attention_and_experts_are_read() -> None:
    read = parse_config("deepseek", DEEPSEEK)
    assert read.kv_numbers(tensor=8) == 576
    assert read.shaped_parameters == pytest.approx(15_706_484_224, rel=1e-4)


@pytest.mark.parametrize(
    ("changes", "window", "layers"),
    [
        ({"sliding_window": 4096, "max_position_embeddings": 32768}, 4096, 32),
        ({"sliding_window": 4096, "max_position_embeddings": 4096}, 0, 0),
        ({"sliding_window": 4096, "use_sliding_window": False}, 0, 0),
        ({"sliding_window": 1024, "sliding_window_pattern": 6}, 1024, 27),
        ({"sliding_window": 1024, "layer_types": ["sliding_attention", "full_attention"] * 16}, 1024, 16),
        ({"sliding_window": 4096, "model_type": "gemma2"}, 4096, 16),
        ({"sliding_window": 1024, "model_type": "gemma3_text"}, 1024, 27),
        ({"sliding_window": None}, 0, 0),
    ],
)
def test_the_layers_with_a_window_are_counted(changes: dict[str, Any], window: int, layers: int) -> None:
    read = parse_config("windows", LLAMA | changes)
    assert (read.sliding_window, read.sliding_layers) == (window, layers)


def test_a_multimodal_config_has_its_language_model_inside() -> None:
    inner = {key: value for key, value in LLAMA.items() if key != "architectures"}
    read = parse_config("seeing", {"architectures": ["Gemma3ForConditionalGeneration"], "text_config": inner})
    assert read.layers == 32
    assert read.tied is True


@pytest.mark.parametrize(
    ("quantized", "expected"),
    [
        ({"quant_method": "awq", "bits": 4}, Quantization.AWQ),
        ({"quant_method": "gptq", "bits": 4}, Quantization.GPTQ),
        ({"quant_method": "gptq", "bits": 8}, Quantization.GPTQ_INT8),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, Quantization.FP8),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}},
            },
            Quantization.FP8,
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "int"}}},
            },
            Quantization.INT8,
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int"}}},
            },
            Quantization.GPTQ,
        ),
    ],
)
def test_the_quantisation_is_read(quantized: dict[str, Any], expected: Quantization) -> None:
    read = parse_config("quantised", LLAMA | {"quantization_config": quantized}, parameters=2_000_000_000)
    assert read.quantization is expected
    assert read.stated_parameters is None  # packed numbers are no parameters


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({key: value for key, value in LLAMA.items() if key != "vocab_size"}, "no 'vocab_size'"),
        (LLAMA | {"num_hidden_layers": 0}, "num_hidden_layers is 0"),
        (LLAMA | {"hidden_size": "wide"}, "not understood"),
        (LLAMA | {"quantization_config": {"quant_method": "novel"}}, "novel is not known"),
    ],
)
def test_a_config_that_does_not_say_enough_names_what_is_missing(config: dict[str, Any], said: str) -> None:
    with pytest.raises(UnknownArchitectureError, match=said):
        parse_config("odd", config)


def test_a_config_of_float32_weights_says_so() -> None:
    assert parse_config("wide", LLAMA | {"torch_dtype": "float32"}).dtype is Dtype.FLOAT32
    assert parse_config("new", LLAMA | {"torch_dtype": "float4"}).dtype is Dtype.AUTO


def test_a_safetensors_header_tells_the_parameters() -> None:
    header = json.dumps(
        {"__metadata__": {"format": "pt"}, "a": {"dtype": "BF16", "shape": [3, 4], "data_offsets": [0, 24]}}
    ).encode()
    assert safetensors_parameters(io.BytesIO(len(header).to_bytes(8, "little") + header)) == 12


@pytest.mark.parametrize("content", [b"", b"1234", (1 << 60).to_bytes(8, "little"), (40).to_bytes(8, "little") + b"{}"])
def test_what_is_no_safetensors_file_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="it "):
        safetensors_parameters(io.BytesIO(content))


def gguf(tensors: dict[str, list[int]], **changes: int) -> bytes:
    """A GGUF header of a Llama with the given tensors."""
    numbers = {
        "block_count": 30,
        "embedding_length": 576,
        "feed_forward_length": 1536,
        "attention.head_count": 9,
        "attention.head_count_kv": 3,
        "context_length": 8192,
        **changes,
    }

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    pairs = [text("general.architecture") + struct.pack("<I", 8) + text("llama")]
    pairs += [text(f"llama.{key}") + struct.pack("<II", 4, value) for key, value in numbers.items()]
    pairs += [text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("b")]
    pairs += [text("tokenizer.ggml.scores") + struct.pack("<IIQ2f", 9, 6, 2, 0.5, 1.0)]
    found = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs)) + b"".join(pairs)
    for name, shape in tensors.items():
        found += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, 0)
    return found


def test_a_gguf_header_gives_the_shape() -> None:
    read = read_gguf(
        "SmolLM2", io.BytesIO(gguf({"token_embd.weight": [576, 49152], "blk.0.attn_q.weight": [576, 576]}))
    )
    assert (read.layers, read.kv_heads, read.head_size, read.vocab) == (30, 3, 64, 49152)
    assert read.tied is True
    assert read.parameters == 576 * 49152 + 576 * 576


@pytest.mark.parametrize("content", [b"", b"GGML", b"GGUF" + struct.pack("<IQQ", 1, 0, 0), gguf({})[:50], gguf({})])
def test_a_broken_gguf_header_is_refused_in_words(content: bytes) -> None:
    with pytest.raises(UnknownArchitectureError, match="GGUF header is not understood"):
        read_gguf("broken", io.BytesIO(content))
