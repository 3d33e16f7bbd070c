"""Safetensors files read in parts at the same time, beside one part after the other.

A folder of shards in half precision is read by the torch engine's own reader into the type that this processor computes
in. In turn with one reader and with several: from the page cache, and from the disk of this host (the kernel is told to
forget the files, which any program may do with its own).
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import torch
from safetensors.torch import save_file

from benchmarks.figures import Figures, Size, size
from llmtorch.loader import cpu_dtype
from llmtorch.weight_files import READERS, read_weights, weight_files

SHARDS: Final = {Size.FULL: 8, Size.QUICK: 4, Size.SMOKE: 1}
TENSORS: Final = 8
SIDE: Final = 4096
ROUNDS: Final = {Size.FULL: 9, Size.QUICK: 5, Size.SMOKE: 1}
CPU: Final = torch.device("cpu")


def measure_loading(figures: Figures) -> None:
    """Seconds to read all shards with one reader and with several, and the ratio of both in each round."""
    cache = Path.home() / ".cache"  # on a disk, where /tmp may be memory
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as name:
        folder = Path(name)
        figures.add("load_bytes", write_shards(folder, SHARDS[size()]), "bytes")
        compare(folder, "memory", remember, figures)
        compare(folder, "disk", forget, figures)


def compare(folder: Path, state: str, prepare: Callable[[Path], None], figures: Figures) -> None:
    """Both, in turn, each time after `prepare`."""
    one, several = in_turn(folder, prepare)
    figures.add(f"load_from_{state}_one_reader", statistics.median(one), "s")
    figures.add(f"load_from_{state}_{READERS}_readers", statistics.median(several), "s")
    ratios = [alone / together for alone, together in zip(one, several, strict=True)]
    figures.add(f"load_from_{state}_speedup", statistics.median(ratios), "ratio")


def in_turn(folder: Path, prepare: Callable[[Path], None]) -> tuple[list[float], list[float]]:
    """Seconds of each round with one reader, and with several; who comes first changes."""
    seconds: dict[int, list[float]] = {1: [], READERS: []}
    for turn in range(ROUNDS[size()]):
        for readers in (1, READERS) if turn % 2 else (READERS, 1):
            prepare(folder)
            began = time.perf_counter()
            read_weights(folder, cpu_dtype(), CPU, readers)
            seconds[readers].append(time.perf_counter() - began)
    return seconds[1], seconds[READERS]


def write_shards(folder: Path, shards: int) -> int:
    """Writes `shards` files with their index; returns their bytes."""
    weight_map: dict[str, str] = {}
    for shard in range(shards):
        path = folder / f"model-{shard:05}.safetensors"
        tensors = {f"{shard}.{index}": torch.rand(SIDE, SIDE).bfloat16() for index in range(TENSORS)}
        save_file(tensors, path)
        weight_map |= dict.fromkeys(tensors, path.name)
        with path.open("rb") as file:
            os.fsync(file.fileno())
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))


def forget(folder: Path) -> None:
    """Takes the files out of the page cache."""
    for path in weight_files(folder):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def remember(folder: Path) -> None:
    """Brings the files into the page cache."""
    for path in weight_files(folder):
        with path.open("rb") as file:
            while file.read(1 << 24):
                pass
