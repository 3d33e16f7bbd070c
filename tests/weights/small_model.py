"""Files of a model that is none, large enough to be cut in the middle."""

from __future__ import annotations

import json
import random
import struct

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "vocab_size": 1000,
    "torch_dtype": "bfloat16",
    "eos_token_id": 2,
}


def safetensors(size: int, seed: int = 1) -> bytes:
    """A safetensors file with one tensor of `size` bytes."""
    header = {"weight": {"dtype": "BF16", "shape": [size // 2], "data_offsets": [0, size // 2 * 2]}}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + random.Random(seed).randbytes(size // 2 * 2)


def small_model(shards: int = 2, shard_bytes: int = 300_000, seed: int = 0) -> dict[str, bytes]:
    """Files by name; another seed is another model."""
    names = [f"model-{n}-of-{shards}.safetensors" for n in range(1, shards + 1)]
    weights = {name: safetensors(shard_bytes, seed + n) for n, name in enumerate(names, 1)}
    return {
        "config.json": json.dumps(CONFIG).encode(),
        "tokenizer.json": b'{"version": "1.0"}',
        **weights,
    }


UNREAD = {"README.md": b"# a model", ".gitattributes": b"*.safetensors filter=lfs", "pytorch_model.bin": b"x" * 1000}
