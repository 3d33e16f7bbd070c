"""Finds a tritonserver on this host and makes its backends usable without touching what is installed.

A server from a wheel (`nvidia-pytriton`) keeps one Python stub per interpreter version apart from the backend, and the
Python backend changes the mode of its stub when it loads. So the backends are linked, and the stub copied, into a
folder of the user's own cache.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path

STUB = "triton_python_backend_stub"
CONTAINER_HOME = Path("/opt/tritonserver")


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
    """A folder with links to the backends and a stub that this user owns; made whole, then moved into place."""
    facts = stub.stat()
    target = cache / "backends" / f"{facts.st_ino:x}-{facts.st_size:x}-{int(facts.st_mtime):x}-{os.getuid()}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=target.parent))
    for folder in source.iterdir():
        (fresh / folder.name).mkdir()
        for file in folder.iterdir():
            (fresh / folder.name / file.name).symlink_to(file.resolve())
    copied = fresh / "python" / STUB
    copied.unlink(missing_ok=True)
    shutil.copyfile(stub, copied)
    copied.chmod(0o755)
    try:
        fresh.rename(target)
    except OSError:  # another process was first
        shutil.rmtree(fresh)
    return target
