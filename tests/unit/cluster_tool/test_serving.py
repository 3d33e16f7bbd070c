"""The folder of the engines' packages also gets the torch engine's kernels, where they can be made."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster import serving

pytestmark = pytest.mark.unit


def test_the_engines_kernels_lie_beside_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "compiler"
    compiler.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\necho code > "$2"\n', encoding="utf-8")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    serving.add_kernels(tmp_path)
    assert [path.suffix for path in (tmp_path / "llmtorch_kernels").iterdir()] == [".so"]


def test_where_they_cannot_be_made_it_says_so_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    serving.add_kernels(tmp_path)
    said = "".join(capsys.readouterr())
    assert "the torch engine goes without its kernels: no C++ compiler" in said
    assert not list(tmp_path.glob("llmtorch_kernels/*.so"))
