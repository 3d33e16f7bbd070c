"""What the first bytes of weight files say: parameters of a safetensors file, shape of a GGUF file.

Only the header is read, so a range request of a few MiB is enough where a file is far away.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from math import prod
from typing import Any, BinaryIO, Final

from llmservice.capacity.architecture import Experts, Model
from llmservice.capacity.config_json import UnknownArchitectureError

MOST_HEADER_BYTES: Final = 100 * 2**20
"""What the safetensors library itself refuses to go beyond."""

_GGUF_MAGIC: Final = b"GGUF"
_SCALARS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
"""Value types of the GGUF format (ggml, docs/gguf.md, "gguf_metadata_value_type")."""


def safetensors_parameters(file: BinaryIO) -> int:
    """All numbers in a safetensors file: 8 bytes of header size, then JSON of tensors. Raises ValueError."""
    prefix = file.read(8)
    size = int.from_bytes(prefix, "little")
    if len(prefix) < 8 or not 0 < size <= MOST_HEADER_BYTES:
        raise ValueError("it is no safetensors file: its header has no sensible size")
    header = json.loads(_exactly(file, size))
    return sum(prod(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__")


def read_gguf(name: str, file: BinaryIO) -> Model:
    """The model in a GGUF file. Raises UnknownArchitectureError where the header does not say what the plan needs."""
    try:
        return _gguf_model(name, *_gguf_header(file))
    except (KeyError, struct.error, ValueError, TypeError) as error:
        raise UnknownArchitectureError(f"its GGUF header is not understood: {error}") from error


def _gguf_header(file: BinaryIO) -> tuple[dict[str, Any], dict[str, int]]:
    """(metadata, parameters by tensor): magic, version, counts, key-value pairs, tensor descriptions."""
    if file.read(4) != _GGUF_MAGIC:
        raise ValueError("it does not begin with GGUF")
    version, tensors, pairs = struct.unpack("<IQQ", _exactly(file, 20))
    if version < 2 or tensors > 1_000_000 or pairs > 100_000:
        raise ValueError(f"version {version} with {tensors} tensors is not known")
    metadata = {}
    for _ in range(pairs):
        key = _string(file)
        metadata[key] = _value(file, _unpack(file, "I"))
    sizes = {}
    for _ in range(tensors):
        key = _string(file)
        dimensions = struct.unpack(f"<{(count := _unpack(file, 'I'))}Q", _exactly(file, 8 * count))
        _exactly(file, 12)  # type and offset
        sizes[key] = prod(dimensions)
    return metadata, sizes


def _gguf_model(name: str, metadata: Mapping[str, Any], sizes: Mapping[str, int]) -> Model:
    kind = metadata["general.architecture"]

    def number(key: str, default: int | None = None) -> int:
        value = metadata.get(f"{kind}.{key}", default)
        if value is None:
            raise KeyError(f"{kind}.{key}")
        return int(max(value) if isinstance(value, list) else value)

    heads, hidden = number("attention.head_count"), number("embedding_length")
    experts = number("expert_count", 0)
    # Without an output layer of its own, the embeddings are used again.
    tied = "output.weight" not in sizes
    return Model(
        name=name,
        layers=number("block_count"),
        hidden=hidden,
        intermediate=number("feed_forward_length"),
        heads=heads,
        kv_heads=number("attention.head_count_kv", heads),
        head_size=number("attention.key_length", hidden // heads),
        vocab=sizes["token_embd.weight"] // hidden,
        max_length=number("context_length"),
        tied=tied,
        qkv_bias="blk.0.attn_q.bias" in sizes,
        experts=Experts(
            experts,
            number("expert_used_count"),
            number("expert_feed_forward_length", number("feed_forward_length")),
            number("expert_shared_feed_forward_length", 0),
            number("leading_dense_block_count", 0),
        )
        if experts
        else None,
        stated_parameters=sum(size for key, size in sizes.items() if not key.startswith("rope_")),
    )


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == _STRING:
        return _string(file)
    if kind != _ARRAY:
        return _unpack(file, _SCALARS[kind])
    inner, count = _unpack(file, "I"), _unpack(file, "Q")
    if inner in _SCALARS:
        size = struct.calcsize(f"<{_SCALARS[inner]}")
        return list(struct.unpack(f"<{count}{_SCALARS[inner]}", _exactly(file, size * count)))
    return [_value(file, inner) for _ in range(count)]


def _string(file: BinaryIO) -> str:
    return _exactly(file, _unpack(file, "Q")).decode("utf-8", "replace")


def _unpack(file: BinaryIO, code: str) -> Any:
    return struct.unpack(f"<{code}", _exactly(file, struct.calcsize(f"<{code}")))[0]


def _exactly(file: BinaryIO, size: int) -> bytes:
    if size > MOST_HEADER_BYTES:
        raise ValueError(f"a field of {size} bytes is no part of a header")
    found = file.read(size)
    if len(found) < size:
        raise ValueError("it ends within its header")
    return found
