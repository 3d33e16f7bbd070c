"""The code of NVIDIA's models comes from NVIDIA's image, and a second run changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmserving.image_code import main

pytestmark = pytest.mark.unit


def test_python_files_are_copied_with_what_keeps_byte_code_away(tmp_path: Path) -> None:
    source, target = tmp_path / "image", tmp_path / "repository/chat/1"
    (source / "lib").mkdir(parents=True)
    (source / "model.py").write_text("one")
    (source / "lib/decode.py").write_text("two")
    (source / "model.yaml").write_text("the image's own, which is rendered here")
    assert main(["--copy", f"{source}:{target}"]) == 0
    assert {path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()} == {
        "model.py",
        "__pycache__",
        "lib/decode.py",
        "lib/__pycache__",
    }
    before = (target / "model.py").stat().st_mtime_ns
    assert main(["--copy", f"{source}:{target}"]) == 0
    assert (target / "model.py").stat().st_mtime_ns == before


def test_an_image_without_the_code_is_told_with_what_to_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--copy", f"{tmp_path}/none:{tmp_path}/there"]) == 1
    assert "use one of NVIDIA's tritonserver:<yy.mm>-trtllm-python-py3 images" in capsys.readouterr().out
