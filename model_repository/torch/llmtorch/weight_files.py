"""The tensors of a model's safetensors files, several parts of them read at the same time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from safetensors import safe_open
from torch import Tensor

from llmtorch.config import ModelFormatError

READERS: Final = 8
"""Parts that are read at the same time, as many as in vLLM's loader with threads: who waits for a disk or a file server
takes no core."""
PART_BYTES: Final = 64 * 2**20
"""A part is whole tensors of one file, and no longer than this unless it is one tensor."""
PAGE_BYTES: Final = 4096


@dataclass(frozen=True)
class Part:
    """Tensors that lie together in one file."""

    path: Path
    names: tuple[str, ...]


def read_weights(folder: Path, dtype: torch.dtype, device: torch.device, readers: int = READERS) -> dict[str, Tensor]:
    """All tensors of a folder with one safetensors file or several, cast to `dtype`.

    `readers` parts are read at the same time. Raises `ModelFormatError` when files are missing.
    """
    parts = [part for path in weight_files(folder) for part in parts_of(path)]
    weights: dict[str, Tensor] = {}
    with ThreadPoolExecutor(readers) as pool:
        for found in pool.map(lambda part: read(part, dtype, device), parts):
            weights |= found
    return weights


def read(part: Part, dtype: torch.dtype, device: torch.device) -> dict[str, Tensor]:
    """The tensors of one part, really read: of one that needs no cast there would else be a mapping only."""
    found = {}
    with safe_open(part.path, framework="pt", device=str(device)) as file:
        for name in part.names:
            tensor = file.get_tensor(name)
            if tensor.dtype == dtype and device.type == "cpu":
                tensor.flatten().view(torch.uint8)[::PAGE_BYTES].sum()
            found[name] = tensor.to(dtype)
    return found


def parts_of(path: Path) -> Iterator[Part]:
    """The tensors of a file in parts, in the order in which they lie there."""
    names: list[str] = []
    size = 0
    for name, length in _lengths(path):
        if names and size + length > PART_BYTES:
            yield Part(path, tuple(names))
            names, size = [], 0
        names.append(name)
        size += length
    if names:
        yield Part(path, tuple(names))


def _lengths(path: Path) -> list[tuple[str, int]]:
    """Names and bytes of the tensors, as they lie in the file."""
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    spans = {name: entry["data_offsets"] for name, entry in header.items() if name != "__metadata__"}
    return [(name, end - begin) for name, (begin, end) in sorted(spans.items(), key=lambda item: item[1])]


def weight_files(folder: Path) -> list[Path]:
    """`model.safetensors`, or the shards that `model.safetensors.index.json` names. Raises `ModelFormatError`."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        missing = [name for name in names if not (folder / name).is_file()]
        if missing:
            raise ModelFormatError(f"{folder} lacks {', '.join(missing)}, which its index names: copy the whole model")
        return [folder / name for name in names]
    if (folder / "model.safetensors").is_file():
        return [folder / "model.safetensors"]
    raise ModelFormatError(f"{folder} holds no safetensors file: convert the model, or name its GGUF file as source")
