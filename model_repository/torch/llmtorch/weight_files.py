"""The tensors of a model's safetensors files, several parts of them read at the same time."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from llmtorch.config import ModelFormatError

READERS: Final = 8
"""Parts that are read at the same time, as many as in vLLM's loader with threads: who waits for a disk or a file server
takes no core."""
PART_NUMBERS: Final = 32 * 2**20
"""A part is whole tensors of one file, and no longer than this unless it is one tensor."""
PAGE_BYTES: Final = 4096


@dataclass(frozen=True)
class Part:
    """Tensors that lie together in an open safetensors file."""

    file: Any
    names: tuple[str, ...]


def read_weights(folder: Path, dtype: torch.dtype, device: torch.device, readers: int = READERS) -> dict[str, Tensor]:
    """All tensors of a folder with one safetensors file or several, cast to `dtype`.

    `readers` parts are read at the same time. A tensor that needs no cast on a processor stays a mapping of its file;
    others are cast from such a mapping, so that none lies twice on a device. Raises `ModelFormatError` when files are
    missing, damaged or no safetensors files.
    """
    weights: dict[str, Tensor] = {}
    with ExitStack() as stack, ThreadPoolExecutor(readers) as pool:
        files = [stack.enter_context(_open(path)) for path in weight_files(folder)]
        parts = [part for file in files for part in parts_of(file)]
        for found in pool.map(lambda part: read(part, dtype, device), parts):
            weights |= found
    return weights


def read(part: Part, dtype: torch.dtype, device: torch.device) -> dict[str, Tensor]:
    """The tensors of one part, in memory: a mapping alone would be read when the first step computes."""
    return {name: _in_memory(part.file.get_tensor(name), dtype, device) for name in part.names}


def _in_memory(tensor: Tensor, dtype: torch.dtype, device: torch.device) -> Tensor:
    if tensor.dtype == dtype and device.type == "cpu":
        content = tensor.flatten().view(torch.uint8)
        content[::PAGE_BYTES].sum()
        content[-1:].sum()  # on a page of its own where the tensor begins within one
    return tensor.to(device, dtype)


def parts_of(file: Any) -> Iterator[Part]:
    """The tensors of an open file in parts, in the order in which they lie there."""
    names: list[str] = []
    count = 0
    for name in file.offset_keys():
        numbers = math.prod(file.get_slice(name).get_shape())
        if names and count + numbers > PART_NUMBERS:
            yield Part(file, tuple(names))
            names, count = [], 0
        names.append(name)
        count += numbers
    if names:
        yield Part(file, tuple(names))


def _open(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except SafetensorError as error:
        raise ModelFormatError(f"{path} is damaged or no safetensors file ({error}): fetch it again") from error


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
