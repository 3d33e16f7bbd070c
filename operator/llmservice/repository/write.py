"""Writes a rendered repository and its code to disk: what the pod's init container does, and local mode.

Triton reloads a model whole, weights and all, when any file of its version folder is newer than at its last load.
So a file that is right stays untouched, and a second run over the same repository changes nothing, no time either.
The Python backend's stub would itself add such a file: it writes byte code beside the code, whatever the environment
says (tritonserver 2.51 embeds an interpreter that ignores it), and then the first live change loads the weights again.
An empty *file* named `__pycache__` in every code folder keeps it from doing so, even where it runs as root.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from llmservice.repository.errors import RepositoryWriteError
from llmservice.repository.render import MANIFEST_KEY, Repository
from llmservice.repository.sources import code_files

VERSION_FOLDER: Final = "1"
BYTE_CODE_BLOCKER: Final = "__pycache__"
_STAGING_PREFIX: Final = ".staging-"


@dataclass(frozen=True)
class Written:
    """What a run changed: paths inside the repository."""

    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


def read_rendered(rendered_dir: Path) -> Repository:
    """The repository in a mounted ConfigMap. Raises ValueError when the folder holds none."""
    if not (rendered_dir / MANIFEST_KEY).is_file():
        raise ValueError(f"{rendered_dir / MANIFEST_KEY} does not exist: mount the repository's ConfigMap there")
    # A mounted ConfigMap also holds `..data` and folders with times in their names; its keys are the plain files.
    return Repository.from_config_map_data(
        {path.name: _text(path) for path in rendered_dir.iterdir() if path.is_file()}
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text (byte {error.start}): this is not a rendered repository") from error


def write(rendered_dir: Path, repository_dir: Path, code_root: Path | None = None) -> Written:
    """Brings `repository_dir` to what the ConfigMap mounted at `rendered_dir` says. See `write_repository`."""
    return write_repository(read_rendered(rendered_dir), repository_dir, code_root)


def write_repository(repository: Repository, repository_dir: Path, code_root: Path | None = None) -> Written:
    """Brings `repository_dir` to `repository` plus the code of its models; other models in it are left alone.

    Everything new is first written beside the models, then moved into place: when it fails (disk full, no
    permission) RepositoryWriteError says why and the models are as they were.
    """
    wanted = _wanted(repository, code_root)
    names = {model.name for model in repository.models}
    changed = tuple(path for path, content in wanted.items() if _differs(repository_dir / path, content))
    removed = tuple(path for path in _present(repository_dir, names) if path not in wanted)
    if changed or removed:
        try:
            _replace(repository_dir, {path: wanted[path] for path in changed}, removed)
        except OSError as error:
            raise RepositoryWriteError(
                error.errno,
                f"cannot write the model repository {repository_dir} ({error.strerror}); nothing was changed. "
                "Give its volume more space, or permission to write",
            ) from error
    return Written(changed, removed)


def _wanted(repository: Repository, code_root: Path | None) -> dict[str, bytes]:
    """Every file of the repository: path → content."""
    files = {path: text.encode() for path, text in repository.files.items()}
    for model in repository.models:
        for path, source in code_files(model.code, code_root).items():
            target = PurePosixPath(model.name, VERSION_FOLDER, path)
            files[str(target)] = source.read_bytes()
            files[str(target.parent / BYTE_CODE_BLOCKER)] = b""
    return dict(sorted(files.items()))


def _present(repository_dir: Path, names: set[str]) -> list[str]:
    """Every file of the models `names` that is on disk."""
    return [
        path.relative_to(repository_dir).as_posix()
        for name in sorted(names)
        for path in sorted((repository_dir / name).rglob("*"))
        if path.is_file()
    ]


def _differs(path: Path, content: bytes) -> bool:
    return not path.is_file() or path.read_bytes() != content


def _replace(repository_dir: Path, changed: Mapping[str, bytes], removed: tuple[str, ...]) -> None:
    """Stages what changed on the same file system; only when all of it is there are the models touched."""
    repository_dir.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=_STAGING_PREFIX, dir=repository_dir))
    try:
        for path, content in changed.items():
            (staging / path).parent.mkdir(parents=True, exist_ok=True)
            (staging / path).write_bytes(content)
        for path in removed:
            (repository_dir / path).unlink()
            _remove_empty_folders((repository_dir / path).parent, repository_dir)
        for model in sorted(staging.iterdir()):
            _move(model, repository_dir / model.name)
    finally:
        shutil.rmtree(staging)


def _move(staged: Path, target: Path) -> None:
    """A model that was not there comes whole, by one rename; one that was gets its changed files, each by a rename."""
    if not target.exists():
        staged.rename(target)
        return
    for source in sorted(staged.rglob("*")):
        if source.is_file():
            destination = target / source.relative_to(staged)
            destination.parent.mkdir(parents=True, exist_ok=True)
            source.replace(destination)


def _remove_empty_folders(folder: Path, stop: Path) -> None:
    while folder != stop and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent
