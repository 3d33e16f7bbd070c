"""Finds a tritonserver on this host and makes its backends usable without touching what is installed.

A server from a wheel (`nvidia-pytriton`) keeps one Python stub per interpreter version apart from the backend, and the
Python backend changes the mode of its stub when it loads. So the backends are linked, and the stub copied, into a
folder of the user's own cache.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

STUB = "triton_python_backend_stub"
CONTAINER_HOME = Path("/opt/tritonserver")
KEY_LENGTH = 16
"""Hexadecimal digits in the name of a folder of prepared backends."""


class TritonserverNotFoundError(RuntimeError):
    """No tritonserver on this host; the message says where it was looked for and how to get one."""


@dataclass(frozen=True)
class Installation:
    """A tritonserver that can be started: `library_paths` go before the environment's `LD_LIBRARY_PATH`."""

    binary: Path
    backends: Path
    library_paths: tuple[Path, ...] = ()


def find_installation(cache: Path | None = None) -> Installation:
    """Looks in this Python environment, then in the place of Triton's images, then in `PATH`.

    `cache` is where prepared backends are kept, by default `$XDG_CACHE_HOME/llmservice`.
    Raises `TritonserverNotFoundError`.
    """
    wheel = _wheel_root()
    if wheel is not None:
        return _from_wheel(wheel, cache or default_cache())
    for binary in _candidates():
        backends = binary.parent.parent / "backends"
        if backends.is_dir():
            return Installation(binary=binary, backends=backends)
    raise TritonserverNotFoundError(
        f"no tritonserver found: not in the Python environment {sys.prefix} (package nvidia-pytriton), "
        f"not in {CONTAINER_HOME}/bin, not in PATH. Install one with: pip install 'triton-llm-operator[tritonserver]'"
    )


def default_cache() -> Path:
    """The folder of this user for what can be made again."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "llmservice"


def _candidates() -> list[Path]:
    in_path = shutil.which("tritonserver")
    found = [CONTAINER_HOME / "bin" / "tritonserver", *([Path(in_path).resolve()] if in_path else [])]
    return [path for path in found if path.is_file()]


def _wheel_root() -> Path | None:
    spec = importlib.util.find_spec("pytriton")
    if spec is None or spec.origin is None:
        return None
    root = Path(spec.origin).parent / "tritonserver"
    return root if (root / "bin" / "tritonserver").is_file() else None


def _from_wheel(root: Path, cache: Path) -> Installation:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stub = root / "python_backend_stubs" / version / STUB
    if not stub.is_file():
        known = ", ".join(sorted(path.name for path in stub.parent.parent.iterdir()))
        raise TritonserverNotFoundError(
            f"the tritonserver of this environment has no Python stub for Python {version}; use one of: {known}"
        )
    backends = _prepare_backends(root / "backends", stub, cache)
    libraries = [root.parent.parent / "nvidia_pytriton.libs"]
    libpython = Path(sysconfig.get_config_var("LIBDIR") or "/nonexistent")
    if (libpython / f"libpython{version}.so.1.0").is_file():
        libraries.append(libpython)
    return Installation(root / "bin" / "tritonserver", backends, tuple(libraries))


def _prepare_backends(source: Path, stub: Path, cache: Path) -> Path:
    """A folder with links to the backends and a stub that this user owns; made whole, then moved into place.

    Its name tells every file that is linked and the stub's facts, with its path: environments made by one package
    manager share files by hard links, so the same inode in another environment, perhaps one that was deleted since,
    says nothing about where the links lead. What is there is used only if nothing is missing from it.
    Raises OSError where the cache cannot be written; nothing half made is left there.
    """
    there = [file for file in sorted(source.glob("*/*")) if file.name != "__pycache__"]
    links = {Path(file.parent.name, file.name): file.resolve() for file in there}
    own = Path("python") / STUB
    links.pop(own, None)
    facts = stub.stat()
    told = [f"{place}={file}" for place, file in links.items()]
    told += [str(stub.resolve()), str(facts.st_size), str(facts.st_mtime_ns), str(os.getuid())]
    target = cache / "backends" / hashlib.sha256("\0".join(told).encode()).hexdigest()[:KEY_LENGTH]
    if _is_whole(target, links, own, facts.st_size):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=target.parent))
    try:
        for place, file in links.items():
            (fresh / place).parent.mkdir(exist_ok=True)
            (fresh / place).symlink_to(file)
        (fresh / own).parent.mkdir(exist_ok=True)
        shutil.copyfile(stub, fresh / own)
        (fresh / own).chmod(0o755)
        _move_into_place(fresh, target, lambda: _is_whole(target, links, own, facts.st_size))
    finally:
        shutil.rmtree(fresh, ignore_errors=True)  # where it was moved, it is not there any more
    return target


def _is_whole(target: Path, links: Mapping[Path, Path], own: Path, stub_bytes: int) -> bool:
    """Whether every link of `target` leads where it should, and its own stub can be run."""
    stub = target / own
    return (
        all(os.path.realpath(target / place) == str(file) for place, file in links.items())
        and stub.is_file()
        and stub.stat().st_size == stub_bytes
        and os.access(stub, os.X_OK)
    )


def _move_into_place(fresh: Path, target: Path, is_done: Callable[[], bool]) -> None:
    """Renames `fresh` to `target`, first moving aside what is broken there, unless another process was first."""
    try:
        if target.exists() and not is_done():
            broken = Path(tempfile.mkdtemp(prefix=".old-", dir=target.parent))
            target.rename(broken)
            shutil.rmtree(broken, ignore_errors=True)
        fresh.rename(target)
    except OSError:
        if not is_done():
            raise
