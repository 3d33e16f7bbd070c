"""The host as a fleet: its memory, and the packages that an engine needs here."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
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
    has: Callable[[str], bool] = lambda module: importlib.util.find_spec(module) is not None,
    find: Callable[[], Installation] = find_installation,
) -> Installation:
    """The tritonserver of this host. Raises LocalError that names all that is missing, and how to get it."""
    absent = [module for module in PACKAGES[backend] if not has(module)]
    wrong = [f"the {backend} engine needs the Python packages {', '.join(absent)}"] if absent else []
    installation = None
    try:
        installation = find()
    except TritonserverNotFoundError as error:
        said, advice, _ = str(error).partition(". Install one with")
        if not absent and not advice:  # there is one, for another Python: nothing to install helps
            raise LocalError(said) from error
        wrong.append(said)
    if installation is None or absent:
        raise LocalError(f"{'; '.join(wrong)}. Install what is missing: {INSTALL}")
    return installation
