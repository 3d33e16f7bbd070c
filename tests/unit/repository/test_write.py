"""The init container's work: whole, idempotent, and harmless when it fails."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from llmservice.api.engine import NATIVE_BACKENDS, Backend
from llmservice.repository.errors import CodeNotFoundError, RepositoryWriteError
from llmservice.repository.render import Repository, RepositoryModel, Role
from llmservice.repository.sources import code_files, code_root
from llmservice.repository.write import Written, read_rendered, write, write_repository
from tests.unit.repository.cases import CASES

pytestmark = pytest.mark.unit

RENDERED = CASES[0].render()


@pytest.fixture
def code(tmp_path: Path) -> Path:
    root = tmp_path / "code"
    for path in ("gate/model.py", "torch/model.py", "torch/sampler.py", "torch/kernels/paged.py", "llmserving/wire.py"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"# {path}\n")
    (root / "torch/__pycache__").mkdir()
    (root / "torch/__pycache__/model.cpython-311.pyc").write_bytes(b"\0")
    return root


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    """A ConfigMap as the kubelet mounts it: every key a link through `..data`."""
    folder = tmp_path / "rendered"
    data = folder / "..2026_01_01"
    data.mkdir(parents=True)
    (folder / "..data").symlink_to(data.name)
    for key, text in RENDERED.to_config_map_data().items():
        (data / key).write_text(text)
        (folder / key).symlink_to(f"..data/{key}")
    return folder


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def times(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in (folder, *folder.rglob("*"))}


def test_lays_out_configuration_and_code_of_both_models(mounted: Path, tmp_path: Path, code: Path) -> None:
    write(mounted, tmp_path / "repository", code)
    assert files(tmp_path / "repository") == {
        "chat/config.pbtxt",
        "chat/1/model.py",
        "chat/1/llmserving/wire.py",
        "chat/1/__pycache__",
        "chat/1/llmserving/__pycache__",
        "chat-engine/config.pbtxt",
        "chat-engine/1/model.py",
        "chat-engine/1/sampler.py",
        "chat-engine/1/kernels/paged.py",
        "chat-engine/1/llmserving/wire.py",
        "chat-engine/1/__pycache__",
        "chat-engine/1/kernels/__pycache__",
        "chat-engine/1/llmserving/__pycache__",
    }
    assert (tmp_path / "repository/chat/config.pbtxt").read_text() == RENDERED.files["chat/config.pbtxt"]


def test_a_second_run_changes_no_time(mounted: Path, tmp_path: Path, code: Path) -> None:
    repository = tmp_path / "repository"
    write(mounted, repository, code)
    before = times(repository)
    assert write(mounted, repository, code) == Written()
    assert times(repository) == before


def test_a_changed_configuration_leaves_the_version_folder_untouched(tmp_path: Path, code: Path) -> None:
    repository = tmp_path / "repository"
    write_repository(RENDERED, repository, code)
    before = times(repository / "chat/1")
    other = {**RENDERED.files, "chat/config.pbtxt": 'name: "chat"\n'}
    written = write_repository(Repository(other, RENDERED.models), repository, code)
    assert written == Written(changed=("chat/config.pbtxt",))
    assert times(repository / "chat/1") == before


def test_code_that_is_gone_is_removed_with_its_folder(tmp_path: Path, code: Path) -> None:
    repository = tmp_path / "repository"
    write_repository(RENDERED, repository, code)
    (code / "torch/kernels/paged.py").unlink()
    assert write_repository(RENDERED, repository, code).removed == (
        "chat-engine/1/kernels/__pycache__",
        "chat-engine/1/kernels/paged.py",
    )
    assert not (repository / "chat-engine/1/kernels").exists()


def test_byte_code_that_an_earlier_server_left_makes_way(tmp_path: Path, code: Path) -> None:
    repository = tmp_path / "repository"
    write_repository(RENDERED, repository, code)
    blocker = repository / "chat/1/__pycache__"
    blocker.unlink()
    blocker.mkdir()
    (blocker / "model.cpython-311.pyc").write_bytes(b"\0")
    write_repository(RENDERED, repository, code)
    assert blocker.read_bytes() == b""


def test_models_of_others_are_left_alone(tmp_path: Path, code: Path) -> None:
    other = tmp_path / "repository/other/1/model.py"
    other.parent.mkdir(parents=True)
    other.write_text("theirs")
    write_repository(RENDERED, tmp_path / "repository", code)
    assert other.read_text() == "theirs"


@pytest.mark.parametrize("earlier", [True, False], ids=["over an old repository", "into an empty folder"])
def test_a_full_disk_leaves_what_was_there(
    tmp_path: Path, code: Path, monkeypatch: pytest.MonkeyPatch, earlier: bool
) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    if earlier:
        write_repository(RENDERED, repository, code)
    before = {path: (repository / path).read_bytes() for path in files(repository)}
    (code / "gate/model.py").write_text("# newer\n")
    (code / "torch/model.py").write_text("# newer\n")
    write_bytes = Path.write_bytes

    def full(path: Path, content: bytes) -> int:
        if path.parts[-3:-1] == ("chat-engine", "1"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return write_bytes(path, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(RepositoryWriteError, match=r"No space left on device.*nothing was changed"):
        write_repository(RENDERED, repository, code)
    assert {path: (repository / path).read_bytes() for path in files(repository)} == before
    assert not list(repository.glob(".staging-*"))


def test_code_that_this_version_lacks_is_named_before_anything_is_written(tmp_path: Path, code: Path) -> None:
    unknown = Repository(RENDERED.files, (RepositoryModel("chat-engine", Role.ENGINE, "tensorrtllm"),))
    with pytest.raises(CodeNotFoundError, match=r"no code for 'tensorrtllm'.*brings gate, torch"):
        write_repository(unknown, tmp_path / "repository", code)
    assert not (tmp_path / "repository").exists()


def test_a_folder_that_holds_no_config_map_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"repository.json does not exist: mount the repository's ConfigMap"):
        read_rendered(tmp_path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"{", "repository.json is not JSON"),
        (b"\xff", "repository.json: not UTF-8 text"),
        (b"[]", "repository.json is not what this operator writes"),
    ],
)
def test_a_damaged_config_map_is_named(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "repository.json").write_bytes(content)
    with pytest.raises(ValueError, match=problem):
        read_rendered(tmp_path)


def test_the_checkout_carries_the_shared_library() -> None:
    assert (code_root() / "llmserving/engine.py").is_file()


def test_byte_code_is_no_source(code: Path) -> None:
    assert not any("__pycache__" in path for path in code_files("torch", code))


def test_each_served_backend_has_an_engine_and_no_other() -> None:
    with_code = {backend for backend in Backend if (code_root() / backend.value / "model.py").is_file()}
    assert with_code == NATIVE_BACKENDS
