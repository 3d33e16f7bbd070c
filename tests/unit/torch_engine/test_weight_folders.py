"""Folders that hold no model, or one that may not be read: each has one cause, in the words of the spec."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from llmserving.weight_folders import folder_model
from llmserving.weight_progress import ExitCode, Progress, WeightsError
from llmserving.weights import prepare

pytestmark = pytest.mark.unit

Make = Callable[[Path], object]


def model(folder: Path) -> Path:
    """A folder that looks like a model."""
    folder.mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (folder / name).write_text("{}")
    return folder


def several(folder: Path) -> None:
    for name in ("a.gguf", "b.gguf"):
        (folder / name).touch()


def snapshot(folder: Path) -> None:
    """What the cache of Hugging Face's client has for a commit: links to blobs beside it."""
    (folder / "config.json").symlink_to("../../blobs/abc")


@pytest.mark.parametrize(
    ("make", "code", "says"),
    [
        (lambda folder: folder.rmdir(), ExitCode.NOT_FOUND, "there is no claim 'models': correct the path"),
        (lambda folder: (folder / ".lock").touch(), ExitCode.BAD_FORMAT, "claim 'models' is empty"),
        (lambda folder: (folder / "notes.txt").touch(), ExitCode.BAD_FORMAT, "neither config.json nor a .gguf file"),
        (lambda folder: model(folder / "llama"), ExitCode.BAD_FORMAT, "name the folder below it that has one (llama)"),
        (several, ExitCode.BAD_FORMAT, "claim 'models' has 2 .gguf files (a.gguf, b.gguf)"),
        (snapshot, ExitCode.NOT_FOUND, "config.json in claim 'models' is a link to ../../blobs/abc"),
    ],
)
def test_a_folder_without_a_model_is_said(tmp_path: Path, make: Make, code: ExitCode, says: str) -> None:
    folder = tmp_path / "volume"
    folder.mkdir()
    make(folder)
    with pytest.raises(WeightsError) as caught:
        folder_model(folder, "claim 'models'")
    assert caught.value.code is code
    assert says in str(caught.value)


def test_a_file_in_the_place_of_a_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "llama").touch()
    with pytest.raises(WeightsError, match="there is no claim") as caught:
        folder_model(tmp_path / "llama", "claim 'models'")
    assert caught.value.code is ExitCode.NOT_FOUND


@pytest.mark.parametrize(
    ("closed", "says"),
    [
        ("", "may not read claim 'models': let others read it"),
        ("model.safetensors", "may not read model.safetensors in claim 'models'"),
    ],
)
def test_what_this_user_may_not_read_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed: str, says: str
) -> None:
    folder = model(tmp_path / "llama")
    refuse(monkeypatch, folder / closed, errno.EACCES)
    with pytest.raises(WeightsError) as caught:
        folder_model(folder, "claim 'models'")
    assert caught.value.code is ExitCode.UNAUTHORIZED
    assert says in str(caught.value)
    assert f"user {os.getuid()}" in str(caught.value)


def test_what_no_engine_reads_may_stay_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = model(tmp_path / "llama")
    (folder / "README.md").touch()
    refuse(monkeypatch, folder / "README.md", errno.EACCES)
    assert folder_model(folder, "claim 'models'") == folder


def test_a_volume_that_fails_is_no_missing_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = model(tmp_path / "llama")
    refuse(monkeypatch, folder, errno.ESTALE)
    with pytest.raises(WeightsError, match=r"claim 'models' cannot be read \(.+\): check its volume") as caught:
        folder_model(folder, "claim 'models'")
    assert caught.value.code is ExitCode.UNEXPECTED


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ({"pvc": {"claimName": "models"}}, "claim 'models' is empty"),
        ({"pvc": {"claimName": "models", "path": "llama"}}, "there is no folder 'llama' of claim 'models'"),
        ({"oci": {"reference": "r.example/m:1", "path": "llama"}}, "no folder 'llama' of image 'r.example/m:1'"),
        ({"hostPath": {"path": "/srv/llama"}}, "folder /srv/llama is empty"),
    ],
)
def test_it_is_named_as_the_spec_names_it(tmp_path: Path, source: dict[str, object], says: str) -> None:
    mount = tmp_path / "source"
    mount.mkdir()
    with pytest.raises(WeightsError) as caught:
        prepare(source, tmp_path / "models", mount=mount, progress=Progress(io.StringIO()))
    assert says in str(caught.value)


def refuse(monkeypatch: pytest.MonkeyPatch, closed: Path, number: int) -> None:
    """Lets the system refuse to open or list `closed`: whoever runs the tests may be root, who is refused nothing."""
    opens: Callable[..., object] = Path.open
    lists = Path.iterdir

    def failing(path: Path) -> None:
        if path == closed:
            raise OSError(number, os.strerror(number), str(path))

    def open_file(path: Path, *arguments: str) -> object:
        failing(path)
        return opens(path, *arguments)

    def list_folder(path: Path) -> Iterator[Path]:
        failing(path)
        return lists(path)

    monkeypatch.setattr(Path, "open", open_file)
    monkeypatch.setattr(Path, "iterdir", list_folder)
