"""The compiled kernels: which build this processor takes, and where it lies.

`kernels/` is C++ that calls nothing but the system, so one library runs whatever torch is installed. A build may lie
beside the sources, or in a folder `llmtorch_kernels` beside torch: pods have neither a compiler nor a place to write.
Elsewhere the first start makes it, where there is a compiler.
"""

from __future__ import annotations

import ctypes
import logging
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import torch

from llmtorch import native_build
from llmtorch.native_build import ARCHITECTURES, COMPILERS

FOLDER = "llmtorch_kernels"
BFLOAT16 = ("amx", "avx512_bf16")
_VECTORS = ("avx512_f", "avx512_bw", "avx512_vl", "avx512_dq")
NEEDS = {
    "amx": (*_VECTORS, "avx512_vnni", "avx512_bf16", "amx_bf16"),
    "avx512_bf16": (*_VECTORS, "avx512_vnni", "avx512_bf16"),
    "avx512": _VECTORS,
    "avx2": ("avx2",),
}
"""What each build asks of a processor, by torch's names."""

log = logging.getLogger(__name__)


def builds_for(dtype: torch.dtype, capabilities: Mapping[str, object] | None = None) -> list[str]:
    """Builds that run here and compute in `dtype`, the best first; none on another kind of processor."""
    found = torch.cpu.get_capabilities() if capabilities is None else capabilities
    computes = {torch.bfloat16: BFLOAT16, torch.float32: tuple(ARCHITECTURES)}.get(dtype, ())
    return [name for name in computes if all(found.get(need) for need in NEEDS[name])]


def load(dtype: torch.dtype) -> ctypes.CDLL | None:
    """The library to compute in `dtype` with; None where there is none and none can be made, as the log then says."""
    for name in builds_for(dtype):
        path = shipped(name) or compiled(name)
        if path is None:
            continue
        try:
            library = ctypes.CDLL(str(path))
        except OSError as error:
            log.warning("the kernels in %s cannot be loaded (%s): torch computes, slower", path, error)
            continue
        if library.llm_ready():
            return library
    return None


def shipped(name: str) -> Path | None:
    """A build that came with the code, or with what Python imports."""
    file = native_build.file_name(name)
    folders = [native_build.SOURCES, *(Path(entry) / FOLDER for entry in sys.path)]
    return next((path for folder in folders if (path := folder / file).is_file()), None)


def compiled(name: str) -> Path | None:
    """The build in the user's cache, made when these sources are new; None without a compiler that takes them."""
    path = native_build.cache_folder() / native_build.file_name(name)
    if path.is_file():
        return path
    compiler = native_build.find_compiler()
    if compiler is None:
        log.warning("no C++ compiler (%s) and no kernels built: torch computes, slower", ", ".join(COMPILERS))
        return None
    try:
        native_build.build(compiler, name, path)
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", "") or str(error)
        log.warning("%s did not make the kernels, so torch computes, slower: %s", compiler, said.strip()[-300:])
        return None
    return path
