"""A model in a folder of a volume, an image or this host: found and readable, or the one cause why not."""

from __future__ import annotations

import os
import stat
from fnmatch import fnmatch
from pathlib import Path

from llmserving.weight_progress import ExitCode, WeightsError

READ = ("*.safetensors", "*.json", "*.model", "*.jinja", "*.txt", "*.py", "*.gguf", "*.bin", "*.engine", "tokenizer*")
"""What engines read: of other files nothing is asked."""
MOST_NAMED = 3


def folder_model(folder: Path, where: str) -> Path:
    """The Hugging Face folder itself, or the one GGUF file in it, readable by this process's user.

    `where` names the folder for people: it may be mounted elsewhere than they know it. Raises `WeightsError`.
    """
    try:
        if stat.S_ISREG(folder.stat().st_mode) and folder.suffix == ".gguf":
            names, found = [], folder
        else:
            names = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
            found = _model(folder, names, where)
        for path in [folder / name for name in names if _is_read(name)] or [found]:
            _open(path, where)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise WeightsError(
            ExitCode.NOT_FOUND, f"there is no {where}: correct the path, or put the model there"
        ) from error
    except PermissionError as error:
        named = Path(os.path.relpath(error.filename or folder, folder))
        what = where if named == Path() else f"{named} in {where}"
        raise WeightsError(
            ExitCode.UNAUTHORIZED,
            f"user {os.getuid()} may not read {what}: let others read it (chmod -R o+rX), or group {os.getgid()}",
        ) from error
    except OSError as error:
        raise WeightsError(
            ExitCode.UNEXPECTED, f"{where} cannot be read ({error.strerror}): check its volume"
        ) from error
    return found


def _model(folder: Path, names: list[str], where: str) -> Path:
    if not names:
        raise WeightsError(ExitCode.BAD_FORMAT, f"{where} is empty: put the model's files there, or correct the path")
    if "config.json" in names:
        return folder
    files = [name for name in names if name.endswith(".gguf")]
    if len(files) == 1:
        return folder / files[0]
    if files:
        raise WeightsError(
            ExitCode.BAD_FORMAT, f"{where} has {len(files)} .gguf files ({_some(files)}): leave the one to serve"
        )
    below = [name for name in names if _has_config(folder / name)]
    remedy = f"name the folder below it that has one ({_some(below)})" if below else "name the folder that has one"
    raise WeightsError(ExitCode.BAD_FORMAT, f"{where} has neither config.json nor a .gguf file: {remedy}")


def _has_config(folder: Path) -> bool:
    try:
        return (folder / "config.json").is_file()
    except PermissionError:
        return False


def _open(path: Path, where: str) -> None:
    """Opens it, for only that tells rights on a file server. Raises OSError, and WeightsError for a lost link."""
    try:
        path.open("rb").close()
    except IsADirectoryError:
        return
    except FileNotFoundError as error:
        if not path.is_symlink():
            raise
        raise WeightsError(
            ExitCode.NOT_FOUND,
            f"{path.name} in {where} is a link to {path.readlink()}, which is not on the volume: copy the model with "
            "its links followed (cp -rL), or mount a folder that has both",
        ) from error


def _is_read(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in READ)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
