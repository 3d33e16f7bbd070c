"""Where a tritonserver is looked for, and how its backends are prepared without touching what is installed."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from llmservice.local import installation
from llmservice.local.installation import STUB, TritonserverNotFoundError, find_installation
from llmservice.local.tritonserver import TritonServer

pytestmark = pytest.mark.unit

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def wheel(root: Path, python: str = PYTHON) -> Path:
    """A wheel's folder with one backend and a stub."""
    for path in ("bin/tritonserver", "backends/python/libtriton_python.so", f"python_backend_stubs/{python}/{STUB}"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path)
    return root


def test_a_wheel_is_used_with_a_stub_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = wheel(tmp_path / "site" / "pytriton" / "tritonserver")
    monkeypatch.setattr(installation, "_wheel_root", lambda: root)

    found = find_installation(cache=tmp_path / "cache")

    assert found.binary == root / "bin" / "tritonserver"
    assert found.library_paths[0] == tmp_path / "site" / "nvidia_pytriton.libs"
    stub = found.backends / "python" / STUB
    assert (stub.is_symlink(), stub.stat().st_mode & 0o111) == (False, 0o111)
    assert (found.backends / "python" / "libtriton_python.so").is_symlink()
    assert find_installation(cache=tmp_path / "cache") == found
    assert not (root / "backends" / "python" / STUB).exists()


def test_an_environment_of_the_same_files_elsewhere_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Package managers hard-link one file into many environments; the first of them may be deleted at any time."""
    first = wheel(tmp_path / "first" / "pytriton" / "tritonserver")
    second = tmp_path / "second" / "pytriton" / "tritonserver"
    shutil.copytree(first, second, copy_function=os.link)
    cache = tmp_path / "cache"
    monkeypatch.setattr(installation, "_wheel_root", lambda: first)
    find_installation(cache)
    shutil.rmtree(tmp_path / "first")

    monkeypatch.setattr(installation, "_wheel_root", lambda: second)
    library = find_installation(cache).backends / "python" / "libtriton_python.so"

    assert library.resolve() == second / "backends" / "python" / "libtriton_python.so"
    assert library.is_file()


@pytest.mark.parametrize(
    "fault", ["a link is gone", "a link leads nowhere", "no stub", "half a stub", "a stub not to be run", "empty"]
)
def test_prepared_backends_that_are_not_whole_are_made_again(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = wheel(tmp_path / "site" / "pytriton" / "tritonserver")
    monkeypatch.setattr(installation, "_wheel_root", lambda: root)
    python = find_installation(tmp_path / "cache").backends / "python"
    stub, library = python / STUB, python / "libtriton_python.so"
    match fault:
        case "a link is gone":
            library.unlink()
        case "a link leads nowhere":
            library.unlink()
            library.symlink_to(tmp_path / "gone")
        case "no stub":
            stub.unlink()
        case "half a stub":
            stub.write_text("half")
        case "a stub not to be run":
            stub.chmod(0o644)
        case _:
            shutil.rmtree(python)

    assert find_installation(tmp_path / "cache").backends == python.parent
    assert (library.read_text(), stub.read_text()) == (
        "backends/python/libtriton_python.so",
        f"python_backend_stubs/{PYTHON}/{STUB}",
    )
    assert stub.stat().st_mode & 0o111 == 0o111
    assert [path.name for path in python.parent.parent.iterdir()] == [python.parent.name], "nothing is left behind"


def test_backends_that_cannot_be_prepared_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = wheel(tmp_path / "site" / "pytriton" / "tritonserver")
    monkeypatch.setattr(installation, "_wheel_root", lambda: root)

    def full(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(OSError, match="No space"):
        find_installation(tmp_path / "cache")
    assert list((tmp_path / "cache" / "backends").iterdir()) == []


def test_a_wheel_without_a_stub_for_this_python_says_which_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = wheel(tmp_path, python="2.7")
    monkeypatch.setattr(installation, "_wheel_root", lambda: root)
    with pytest.raises(TritonserverNotFoundError, match=r"use one of: 2\.7"):
        find_installation(cache=tmp_path / "cache")


def test_the_image_comes_next_then_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "_wheel_root", lambda: None)
    monkeypatch.setattr(installation, "CONTAINER_HOME", tmp_path / "opt")
    monkeypatch.setenv("PATH", str(tmp_path / "own" / "bin"))
    for home in ("own", "opt"):
        binary = tmp_path / home / "bin" / "tritonserver"
        binary.parent.mkdir(parents=True)
        binary.touch(mode=0o755)
        (tmp_path / home / "backends").mkdir()
        assert find_installation().binary == binary


def test_without_any_the_error_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "_wheel_root", lambda: None)
    monkeypatch.setattr(installation, "CONTAINER_HOME", tmp_path / "opt")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TritonserverNotFoundError, match="pip install"):
        find_installation()


def test_the_command_controls_models_explicitly_and_listens_here_only(tmp_path: Path) -> None:
    found = installation.Installation(tmp_path / "tritonserver", tmp_path / "backends")
    server = TritonServer(
        tmp_path, load_models=["a", "b"], arguments=["--log-verbose=1"], log=tmp_path / "log", installation=found
    )
    command = server.command()
    assert "--model-control-mode=explicit" in command
    assert {"--load-model=a", "--load-model=b", "--log-verbose=1"} <= set(command)
    assert {"--http-address=127.0.0.1", "--grpc-address=127.0.0.1", "--metrics-address=127.0.0.1"} <= set(command)
    assert not server.running()
    assert server.stop() is None
