"""Safetensors files in parts: which tensors belong together, several parts at the same time, and the same weights."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from llmtorch import weight_files
from llmtorch.weight_files import Part, parts_of, read_weights

pytestmark = pytest.mark.unit

CPU = torch.device("cpu")
SIZES = {"first": 3, "second": 2, "large": 9, "last": 1, "none": 0}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tensors = {name: torch.arange(size, dtype=torch.float32) for name, size in SIZES.items()}
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    return tmp_path


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of at most five numbers."""
    monkeypatch.setattr(weight_files, "PART_BYTES", 20)


@pytest.mark.usefixtures("small_parts")
def test_a_part_is_neighbours_up_to_its_size_and_a_larger_tensor_is_one_by_itself(folder: Path) -> None:
    parts = list(parts_of(folder / "model.safetensors"))
    named = [name for part in parts for name in part.names]
    assert sorted(named) == sorted(SIZES)
    sizes = [sum(SIZES[name] for name in part.names) for part in parts]
    assert all(size <= 5 or part.names == ("large",) for part, size in zip(parts, sizes, strict=True))
    assert 3 <= len(parts) < len(SIZES)


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
    assert len(list(parts_of(folder / "model.safetensors"))) == 3
    assert set(read_weights(folder, torch.float32, CPU, 3)) == set(SIZES)


@pytest.mark.usefixtures("small_parts")
def test_a_file_that_was_cut_is_no_model(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(Exception, match=r"incomplete|InvalidOffset|size|Metadata"):
        read_weights(folder, torch.float32, CPU)
