"""Things built once into the user cache: keyed by what they are made of, complete or absent, safe under two runs."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from cluster.locks import held
from cluster.progress import step
from cluster.settings import Settings


def digest(*parts: str | bytes) -> str:
    """Twelve hexadecimal digits that change with any part."""
    hasher = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        hasher.update(len(data).to_bytes(8, "big") + data)
    return hasher.hexdigest()[:12]


def tree_digest(root: Path, names: Iterable[str]) -> str:
    """Digest of files and folders below `root`: paths, modes' executable bit and contents; byte code left out."""
    parts: list[str | bytes] = []
    for name in sorted(names):
        top = root / name
        files = sorted(top.rglob("*")) if top.is_dir() else [top]
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts:
                executable = bool(file.stat().st_mode & 0o100)
                parts += [f"{file.relative_to(root)} {executable}", file.read_bytes()]
    return digest(*parts)


def log_path(settings: Settings, name: str) -> Path:
    """Where the output of building `name` goes."""
    return settings.cache / "logs" / f"{name}.log"


def built(settings: Settings, name: str, key: str, why: str, build: Callable[[Path], None]) -> Path:
    """The folder `<name>-<key>` in the cache; `build` fills a temporary folder that is renamed when complete.

    An interrupted build leaves only the temporary folder, which the next run removes.
    """
    target = settings.cache / f"{name}-{key}"
    if target.is_dir():
        return target
    with held(settings.cache / "locks" / f"{name}.lock", name):
        if target.is_dir():
            return target
        partial = settings.cache / f".{name}-{key}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        log_path(settings, name).unlink(missing_ok=True)
        with step(name, why):
            build(partial)
        partial.rename(target)
    return target
