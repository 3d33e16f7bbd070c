"""The host as a fleet: its memory, and the packages that an engine needs here."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from llmservice.api.engine import Backend
from llmservice.api.fleet import FleetDefaults, Pool
from llmservice.local.errors import LocalError
from llmservice.local.installation import Installation, TritonserverNotFoundError, find_installation

PACKAGES: Final = {
    Backend.TORCH: ("torch", "tokenizers", "safetensors", "jinja2", "numpy"),
    Backend.VLLM: ("vllm",),
    Backend.TENSORRTLLM: ("tensorrt_llm",),
}
"""Modules that the engine imports, by backend."""

INSTALL: Final = "pip install 'triton-llm-operator[serving,tritonserver]'"
INSTALL_VLLM: Final = (
    "`make vllm` in the checkout brings it into an environment of its own, .venv-vllm, since vLLM and tritonserver "
    "want other versions of numpy; or name the interpreter of an environment that has it: --python PATH"
)


@dataclass(frozen=True)
class Serving:
    """What a service runs with here: the tritonserver, and the interpreter whose packages its engine imports."""

    installation: Installation
    python: Path


def memory_bytes() -> int:
    """Physical memory of this host."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def host_fleet(fleet: FleetDefaults, pool: str, memory: int) -> FleetDefaults:
    """`fleet` with `pool` in it: a pool that it does not name is the CPU of this host, `memory` bytes large."""
    here = fleet.pools.get(pool, Pool())
    if here.resource == "" and here.memory is None:
        here = here.model_copy(update={"memory": str(memory)})
    return fleet.model_copy(update={"pools": {**fleet.pools, pool: here}})


def require_serving(
    backend: Backend,
    python: Path | None = None,
    absent: Callable[[Path, Sequence[str]], Sequence[str]] = lambda python, modules: absent_modules(python, modules),
    find: Callable[[], Installation] = find_installation,
) -> Serving:
    """What a service needs on this host. Raises LocalError that names all that is missing, and how to get it.

    The engine's packages are looked for in the environment of `python` where it is given, else in this one and in the
    one beside it with the backend's name, such as `.venv-vllm`.
    """
    if python is not None and not python.exists():
        raise LocalError(f"--python {python}: there is no such file")
    chosen, missing = python or Path(sys.executable), absent(python or Path(sys.executable), PACKAGES[backend])
    other = beside(Path(sys.prefix), backend)
    if missing and python is None and other.exists():
        chosen, missing = other, absent(other, PACKAGES[backend])
    where = "" if chosen == Path(sys.executable) else f" in {chosen}"
    wrong = [f"the {backend} engine needs the Python packages {', '.join(missing)}{where}"] if missing else []
    installation = None
    try:
        installation = find()
    except TritonserverNotFoundError as error:
        said, advice, _ = str(error).partition(". Install one with")
        if not missing and not advice:  # there is one, for another Python: nothing to install helps
            raise LocalError(said) from error
        wrong.append(said)
    if installation is None or missing:
        way = INSTALL_VLLM if backend is Backend.VLLM and installation is not None else INSTALL
        raise LocalError(f"{'; '.join(wrong)}. Install what is missing: {way}")
    return Serving(installation, chosen)


def beside(prefix: Path, backend: Backend) -> Path:
    """The interpreter of the environment that `make` keeps for a backend beside the one at `prefix`."""
    return prefix.with_name(f"{prefix.name}-{backend}") / "bin" / "python"


def _is_here(module: str) -> bool:
    """Whether it can be imported; a mere folder of that name, such as `model_repository/vllm`, has no origin."""
    spec = importlib.util.find_spec(module)
    return spec is not None and spec.origin is not None


def absent_modules(python: Path, modules: Sequence[str]) -> Sequence[str]:
    """Those of `modules` that `python` does not find. Raises LocalError for an interpreter of another version.

    Triton's Python stub is built for one version, and takes packages from an environment of that version only.
    """
    if python == Path(sys.executable):
        return [module for module in modules if not _is_here(module)]
    asked = (
        "import importlib.util as u, json, sys; print(json.dumps([sys.version_info[:2], "
        "[m for m in sys.argv[1:] if u.find_spec(m) is None]]))"
    )
    done = subprocess.run([python, "-I", "-c", asked, *modules], capture_output=True, text=True, check=False)
    try:
        version, absent = json.loads(done.stdout)
    except ValueError as error:
        raise LocalError(f"{python} does not run Python: {done.stderr.strip() or done.stdout.strip()}") from error
    if tuple(version) != sys.version_info[:2]:
        ours = ".".join(map(str, sys.version_info[:2]))
        raise LocalError(f"{python} is Python {'.'.join(map(str, version))}; the tritonserver here runs {ours}")
    return [str(module) for module in absent]
