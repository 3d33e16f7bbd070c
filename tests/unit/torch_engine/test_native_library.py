"""Which build of the kernels is taken, and what happens where there is none."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
import torch

from llmtorch import native_build
from llmtorch.native_build import best_here, cache_folder, digest, find_compiler
from llmtorch.native_library import builds_for, compiled, load, shipped

pytestmark = pytest.mark.unit

AVX2 = {"avx2": True}
AVX512 = AVX2 | dict.fromkeys(("avx512_f", "avx512_bw", "avx512_vl", "avx512_dq", "avx512_vnni"), True)
BF16 = AVX512 | {"avx512_bf16": True}
AMX = BF16 | {"amx_bf16": True}


@pytest.mark.parametrize(
    ("capabilities", "float32", "bfloat16"),
    [
        ({}, [], []),
        (AVX2, ["avx2"], []),
        (AVX512, ["avx512", "avx2"], []),
        (BF16, ["avx512_bf16", "avx512", "avx2"], ["avx512_bf16"]),
        (AMX, ["amx", "avx512_bf16", "avx512", "avx2"], ["amx", "avx512_bf16"]),
    ],
)
def test_builds_by_what_the_processor_has(
    capabilities: dict[str, object], float32: list[str], bfloat16: list[str]
) -> None:
    assert builds_for(torch.float32, capabilities) == float32
    assert builds_for(torch.bfloat16, capabilities) == bfloat16
    assert builds_for(torch.float16, capabilities) == []


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return cache_folder()


def compiler_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """In the place of the compiler, a shell script; `$out` is the file it is to make."""
    path = tmp_path / "compiler"
    path.write_text(f'#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done; out=$2\n{script}\n', encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CXX", str(path))


def test_a_build_is_made_once(empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler_that(tmp_path, monkeypatch, f'echo made >> {tmp_path}/log; echo code > "$out"')
    path = compiled("avx2")
    assert path == empty_cache / f"avx2-{digest()}.so"
    assert path.read_text() == "code\n"
    assert compiled("avx2") == path
    assert (tmp_path / "log").read_text() == "made\n"
    assert [entry.name for entry in empty_cache.iterdir()] == [path.name]


def test_a_compiler_that_fails_is_told_and_torch_computes(
    empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    compiler_that(tmp_path, monkeypatch, "echo no such architecture >&2; exit 1")
    assert load(torch.float32) is None
    assert "did not make the kernels, so torch computes, slower: no such architecture" in caplog.text
    assert list(empty_cache.iterdir()) == []


def test_without_a_compiler_torch_computes(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    assert find_compiler() is None
    assert load(torch.float32) is None
    assert "no C++ compiler" in caplog.text
    assert not empty_cache.exists()


def test_what_is_no_library_is_told(
    empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    compiler_that(tmp_path, monkeypatch, 'echo code > "$out"')
    assert load(torch.float32) is None
    assert "cannot be loaded" in caplog.text
    assert empty_cache.is_dir()


@pytest.mark.parametrize("beside", ["the code", "torch"])
def test_builds_made_ahead_need_no_compiler(beside: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler_that(tmp_path, monkeypatch, 'echo "$out" > "$out"')
    folder = tmp_path / "llmtorch_kernels"
    monkeypatch.setattr(native_build, "digest", lambda: "of-these-sources")
    if beside == "the code":
        folder = tmp_path / "sources"
        monkeypatch.setattr(native_build, "SOURCES", folder)
    else:
        monkeypatch.syspath_prepend(str(tmp_path))
    assert native_build.main([str(folder), "avx2", "amx"]) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["amx-of-these-sources.so", "avx2-of-these-sources.so"]
    monkeypatch.setenv("CXX", "/nowhere")
    assert native_build.main([str(folder), "avx2"]) == 0
    assert shipped("avx2") == folder / "avx2-of-these-sources.so"
    assert shipped("avx512") is None


def test_made_ahead_without_a_compiler_or_with_one_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    compiler_that(tmp_path, monkeypatch, "echo no such architecture >&2; exit 1")
    assert native_build.main([str(tmp_path / "made"), "avx2"]) == 1
    assert "did not make the kernels avx2: no such architecture" in capsys.readouterr().out
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "/nowhere")
    assert native_build.main([str(tmp_path / "made"), "avx2"]) == 1
    assert "no C++ compiler (c++, g++, clang++): install one" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        ("fpu avx2 avx512f avx512dq avx512_bf16 amx_bf16", "amx"),
        ("fpu avx2 avx512f avx512dq avx512_bf16", "avx512_bf16"),
        ("fpu avx2 avx512f avx512dq", "avx512"),
        ("fpu avx2", "avx2"),
        ("fpu", None),
    ],
)
def test_the_build_for_this_processor(flags: str, name: str | None, tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nflags\t\t: {flags}\nprocessor\t: 1\n", encoding="utf-8")
    assert best_here(cpuinfo) == name
