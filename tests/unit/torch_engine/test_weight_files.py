"""Safetensors files in parts: which tensors belong together, several parts at the same time, and the same weights."""

from __future__ import annotations

import ctypes
import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from llmtorch import weight_files
from llmtorch.config import ModelFormatError
from llmtorch.weight_files import PAGE_BYTES, Part, parts_of, read_weights

pytestmark = pytest.mark.unit

CPU = torch.device("cpu")
SIZES = {"first": 3, "second": 2, "large": 9, "last": 1, "none": 0}
LYING = ("zeta", "alpha", "large", "mid", "beta")
"""The names of `disordered`, as they lie in it."""


def file_of(tensors: dict[str, list[float]]) -> bytes:
    """A safetensors file of float32 tensors that lie in the order given; its header names them by the alphabet."""
    offset, spans = 0, {}
    for name, numbers in tensors.items():
        spans[name] = [offset, offset := offset + 4 * len(numbers)]
    entries = {
        name: {"dtype": "F32", "shape": [len(tensors[name])], "data_offsets": spans[name]} for name in sorted(tensors)
    }
    header = json.dumps(entries).encode()
    body = b"".join(torch.tensor(numbers).numpy().tobytes() for numbers in tensors.values())
    return len(header).to_bytes(8, "little") + header + body


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tensors = {name: torch.arange(size, dtype=torch.float32) for name, size in SIZES.items()}
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    return tmp_path


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of at most five numbers."""
    monkeypatch.setattr(weight_files, "PART_NUMBERS", 5)


@pytest.mark.usefixtures("small_parts")
def test_a_part_is_neighbours_up_to_its_size_and_a_larger_tensor_is_one_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(file_of({name: [0.0] * (9 if name == "large" else 2) for name in LYING}))
    with safe_open(path, framework="pt") as file:
        assert [part.names for part in parts_of(file)] == [("zeta", "alpha"), ("large",), ("mid", "beta")]


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("readers", [1, 8])
def test_the_weights_are_the_same_whoever_reads_them(folder: Path, dtype: torch.dtype, readers: int) -> None:
    found = read_weights(folder, dtype, CPU, readers)
    assert {name: tensor.tolist() for name, tensor in found.items()} == {
        name: list(range(size)) for name, size in SIZES.items()
    }
    assert {tensor.dtype for tensor in found.values()} == {dtype}


@pytest.mark.usefixtures("small_parts")
def test_parts_are_read_at_the_same_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(3, timeout=1.5)

    def read(part: Part, dtype: torch.dtype, device: torch.device) -> dict[str, torch.Tensor]:
        together.wait()
        return {name: torch.zeros(1, dtype=dtype, device=device) for name in part.names}

    monkeypatch.setattr(weight_files, "read", read)
    assert set(read_weights(folder, torch.float32, CPU, 3)) == set(SIZES)


@pytest.mark.usefixtures("small_parts")
def test_a_file_is_mapped_once_and_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file({f"t{each}": torch.ones(64 * PAGE_BYTES) for each in range(8)}, path)
    tensors = read_weights(tmp_path, torch.float32, CPU)
    mapped = [line for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines() if str(path) in line]
    assert len(mapped) == 1
    assert all(resident(tensor) for tensor in tensors.values())


def resident(tensor: torch.Tensor) -> bool:
    """Whether this process has every page of the tensor at hand (Linux: /proc/self/pagemap, bit 63)."""
    first, last = tensor.data_ptr() // PAGE_BYTES, (tensor.data_ptr() + tensor.nbytes - 1) // PAGE_BYTES
    with Path("/proc/self/pagemap").open("rb") as pages:
        pages.seek(8 * first)
        entries = pages.read(8 * (last - first + 1))
    return all(entry >> 63 for entry in (ctypes.c_uint64 * (last - first + 1)).from_buffer_copy(entries))


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: whole[:-4],
        lambda whole: b"",
        lambda whole: whole[:5],
        lambda whole: whole[:40],
        lambda whole: bytes(len(whole)),
        lambda whole: b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 134515008\n",
        lambda whole: b"<html><body>not found</body></html>",
        lambda whole: b"\xff" * 8 + whole[8:],
        lambda whole: (2**32).to_bytes(8, "little") + b"{}",
        lambda whole: whole.replace(b"data_offsets", b"data_nowhere"),
    ],
)
def test_a_damaged_file_is_named_with_what_to_do(folder: Path, damage: Callable[[bytes], bytes]) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ModelFormatError, match=rf"^{path} is damaged or no safetensors file \(.+\): fetch it again$"):
        read_weights(folder, torch.float32, CPU)
