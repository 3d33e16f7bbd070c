"""The weights step: each source becomes a ready folder, once; what goes wrong is one clear line and an exit code."""

from __future__ import annotations

import fcntl
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from llmserving import weight_sources, weights
from llmserving.weight_progress import ExitCode, Progress, WeightsError, cause_of
from llmserving.weights import main, prepare
from tests.unit.torch_engine.gguf_files import write_gguf
from tests.unit.torch_engine.tiny import engine_on, greedy, run

pytestmark = pytest.mark.unit

PACKAGE = {"package": {"name": "tiny-model", "version": "1.0"}}
METADATA = "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def quiet(source: Mapping[str, object], target: Path, mount: Path | None = None) -> Path:
    return prepare(source, target, mount=mount, progress=Progress(io.StringIO()))


def install_package(folder: Path) -> None:
    """A package with a model in it, as an installer leaves it."""
    (folder / "tiny_model").mkdir(parents=True)
    write_gguf(folder / "tiny_model" / "tiny.gguf")
    info = folder / "tiny_model-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA)
    (info / "RECORD").write_text("tiny_model/tiny.gguf,,\ntiny_model-1.0.dist-info/METADATA,,\n")


def build_wheel(folder: Path) -> None:
    """The same package as a wheel."""
    folder.mkdir()
    model = write_gguf(folder / "tiny.gguf")
    with zipfile.ZipFile(folder / "tiny_model-1.0-py3-none-any.whl", "w") as wheel:
        wheel.write(model, "tiny_model/tiny.gguf")
        wheel.writestr("tiny_model-1.0.dist-info/METADATA", METADATA)
        wheel.writestr("tiny_model-1.0.dist-info/WHEEL", WHEEL)
        names = ["tiny_model/tiny.gguf", *(f"tiny_model-1.0.dist-info/{n}" for n in ("METADATA", "WHEEL", "RECORD"))]
        wheel.writestr("tiny_model-1.0.dist-info/RECORD", "".join(f"{name},,\n" for name in names))


def only_index(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Lets pip and uv see nothing but the wheels in `folder`."""
    for tool in ("PIP", "UV"):
        monkeypatch.setenv(f"{tool}_NO_INDEX", "1")
        monkeypatch.setenv(f"{tool}_FIND_LINKS", str(folder))


def answers_like(tiny_llama: Path, folder: Path) -> bool:
    return (
        run(engine_on(folder), greedy(1, "Once"))[1].tokens == run(engine_on(tiny_llama), greedy(1, "Once"))[1].tokens
    )


def test_a_package_that_is_installed_is_converted(
    tmp_path: Path, tiny_llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_package(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    folder = quiet(PACKAGE, tmp_path / "models")
    assert folder == tmp_path / "models"
    assert answers_like(tiny_llama, folder)
    assert not (folder / ".partial").exists()


def test_a_package_that_is_not_installed_is_installed_for_this_once(
    tmp_path: Path, tiny_llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_wheel(tmp_path / "index")
    only_index(monkeypatch, tmp_path / "index")
    assert answers_like(tiny_llama, quiet(PACKAGE, tmp_path / "models"))


def test_a_package_that_does_not_exist_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_index(monkeypatch, tmp_path)
    with pytest.raises(WeightsError, match=r"tiny-model==1\.0; check name and version") as caught:
        quiet(PACKAGE, tmp_path / "models")
    assert caught.value.code is ExitCode.NOT_FOUND


def test_a_package_without_the_file_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_package(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    with pytest.raises(WeightsError, match=r"must hold one file \*\.onnx, and holds nothing"):
        quiet({"package": {"name": "tiny_model", "file": "*.onnx"}}, tmp_path / "models")


def test_a_folder_is_used_in_place(tmp_path: Path, tiny_llama: Path) -> None:
    folder = quiet({"hostPath": {"path": str(tiny_llama)}}, tmp_path / "models")
    assert (folder / "model.safetensors").is_symlink()
    assert answers_like(tiny_llama, folder)


def test_a_gguf_file_on_a_volume_is_converted(tmp_path: Path, tiny_llama: Path) -> None:
    (tmp_path / "volume" / "below").mkdir(parents=True)
    write_gguf(tmp_path / "volume" / "below" / "tiny.gguf")
    source = {"pvc": {"claimName": "models", "path": "below"}}
    assert answers_like(tiny_llama, quiet(source, tmp_path / "models", mount=tmp_path / "volume"))


def test_a_second_run_does_nothing(tmp_path: Path, tiny_llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = {"hostPath": {"path": str(tiny_llama)}}
    quiet(source, tmp_path)

    def never(*_: object) -> Path:
        raise AssertionError("nothing is to be located again")

    monkeypatch.setattr(weights, "locate", never)
    quiet(source, tmp_path)


def test_another_source_replaces_what_the_first_left_and_nothing_else(tmp_path: Path, tiny_llama: Path) -> None:
    first = tmp_path / "first"
    first.mkdir()
    for name in ("config.json", "only-in-the-first.json"):
        (first / name).write_text("{}")
    target = tmp_path / "models"
    quiet({"hostPath": {"path": str(first)}}, target)
    (target / "of-somebody-else").write_text("")
    quiet({"hostPath": {"path": str(tiny_llama)}}, target)
    assert not (target / "only-in-the-first.json").exists()
    assert (target / "of-somebody-else").exists()
    assert answers_like(tiny_llama, target)


def test_a_failed_run_keeps_what_it_has_fetched_for_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []

    def stops_halfway(_: object, work: Path, *__: object) -> Path:
        seen.append((work / "half").exists())
        (work / "half").write_text("")
        raise WeightsError(ExitCode.NETWORK, "cut off")

    monkeypatch.setattr(weights, "locate", stops_halfway)
    for source in (PACKAGE, PACKAGE, {"package": {"name": "other"}}):
        with pytest.raises(WeightsError):
            quiet(source, tmp_path)
    assert seen == [False, True, False]


def test_one_run_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_locked(*_: object) -> Path:
        with (tmp_path / ".lock").open() as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        raise WeightsError(ExitCode.NETWORK, "seen")

    monkeypatch.setattr(weights, "locate", is_locked)
    with pytest.raises(WeightsError, match="seen"):
        quiet(PACKAGE, tmp_path)


@pytest.mark.parametrize(
    ("source", "code", "words"),
    [
        ({}, ExitCode.INVALID_SOURCE, "one object"),
        ({"package": {}}, ExitCode.INVALID_SOURCE, "needs the field 'name'"),
        ({"carrierPigeon": {"name": "x"}}, ExitCode.INVALID_SOURCE, "carrierPigeon"),
        ({"hostPath": {"path": "/nowhere/at/all"}}, ExitCode.NOT_FOUND, "no folder /nowhere/at/all"),
    ],
)
def test_a_bad_source_is_said(source: dict[str, object], code: ExitCode, words: str, tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=words) as caught:
        quiet(source, tmp_path)
    assert caught.value.code is code


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("ERROR: No matching distribution found for x", ExitCode.NOT_FOUND),
        ("  No solution found when resolving dependencies", ExitCode.NOT_FOUND),
        ("WARNING: ... Connection refused\nERROR: No matching distribution found for x", ExitCode.NETWORK),
        ("ERROR: 401 Client Error: Unauthorized for url", ExitCode.UNAUTHORIZED),
        ("OSError: [Errno 28] No space left on device", ExitCode.DISK_FULL),
        ("", ExitCode.UNEXPECTED),
    ],
)
def test_what_an_installer_says_is_told_apart(said: str, code: ExitCode) -> None:
    assert weight_sources._install_error("x", said).code is code


def test_a_full_disk_is_told_apart_from_other_faults(tmp_path: Path) -> None:
    assert cause_of(OSError(28, "No space left on device"), tmp_path).code is ExitCode.DISK_FULL
    assert cause_of(OSError(30, "Read-only file system"), tmp_path).code is ExitCode.UNEXPECTED


def test_progress_is_one_line_a_second_with_rate_and_time_left() -> None:
    out, now = io.StringIO(), [0.0]
    progress = Progress(out, clock=lambda: now[0])
    progress.begin("download", total=1000, done=200)
    for _ in range(8):
        now[0] += 0.25
        progress.advance(50)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["percent"] for line in lines] == [20.0, 40.0, 60.0]
    assert lines[-1]["bytes_per_second"] == 200
    assert lines[-1]["eta_seconds"] == 2.0


def test_the_command_ends_with_one_line_a_code_and_a_termination_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    message = tmp_path / "termination-log"
    message.write_text("")
    monkeypatch.setattr(weights, "TERMINATION_LOG", message)
    source = json.dumps({"hostPath": {"path": "/nowhere"}})
    assert main(["--source", source, "--target", str(tmp_path / "models")]) == ExitCode.NOT_FOUND
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (last["phase"], last["reason"]) == ("failed", "NOT_FOUND")
    assert message.read_text() == f"NOT_FOUND: {last['message']}"
    assert main(["--source", "{", "--target", str(tmp_path)]) == ExitCode.INVALID_SOURCE


def test_it_runs_as_a_file_from_a_repository(tmp_path: Path, tiny_llama: Path) -> None:
    source = json.dumps({"hostPath": {"path": str(tiny_llama)}})
    command = [sys.executable, weights.__file__, "--source", source, "--target", str(tmp_path / "models")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "phase": "done",
        "percent": 100.0,
        "path": str(tmp_path / "models"),
    }


def test_a_package_that_the_image_lacks_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "model.gguf").write_bytes(b"GGUF")
    monkeypatch.setitem(sys.modules, "llmserving.gguf_folder", None)
    source = {"hostPath": {"path": str(volume)}}
    with pytest.raises(WeightsError, match="serving image lacks") as caught:
        prepare(source, tmp_path / "models", mount=volume)
    assert "mount a folder" in str(caught.value)


def test_a_fault_of_our_own_ends_in_one_line_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    message = tmp_path / "termination-log"
    message.touch()
    monkeypatch.setattr(weights, "TERMINATION_LOG", message)
    monkeypatch.setattr(weights, "locate", lambda *_: 1 / 0)
    code = main(["--source", '{"package": {"name": "x"}}', "--target", str(tmp_path / "models")])
    assert code == 1
    assert message.read_text() == "UNEXPECTED: ZeroDivisionError: division by zero"
    assert capsys.readouterr().err.splitlines()[-1] == "weights: ZeroDivisionError: division by zero"
