"""Compiles the kernels, for one kind of processor at a time.

`python native_build.py FOLDER [NAME …]` does it ahead of need, by default for this processor. It needs nothing but
Python and a compiler, so whoever puts torch into an image or a folder can put the kernels beside it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

SOURCES = Path(__file__).with_name("kernels")
FLAGS = ("-std=c++17", "-O3", "-fPIC", "-shared", "-fno-exceptions", "-fno-rtti", "-fvisibility=hidden", "-w")
COMPILERS = ("c++", "g++", "clang++")
ARCHITECTURES = {
    "amx": "sapphirerapids",
    "avx512_bf16": "cooperlake",
    "avx512": "skylake-avx512",
    "avx2": "haswell",
}
"""Builds, the best first, and the architecture that compilers know each by."""
FLAG_OF = {"amx": "amx_bf16", "avx512_bf16": "avx512_bf16", "avx512": "avx512dq", "avx2": "avx2"}


def find_compiler() -> list[str] | None:
    """The command of `CXX`, or of the first compiler in `PATH`."""
    if os.environ.get("CXX"):
        return os.environ["CXX"].split()
    return next(([path] for name in COMPILERS if (path := shutil.which(name))), None)


def build(compiler: Sequence[str], name: str, path: Path) -> None:
    """Compiles one build to `path`, which appears whole or not at all.

    Raises `OSError`, or `CalledProcessError` with what the compiler said.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        command = [*compiler, *FLAGS, f"-march={ARCHITECTURES[name]}", str(SOURCES / "decoder.cpp"), "-o", str(made)]
        subprocess.run([*command, "-lpthread"], check=True, capture_output=True, text=True)
        made.replace(path)


def cache_folder() -> Path:
    """Where builds of this user lie."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "triton-llm-operator" / "kernels"


def digest() -> str:
    """Changes with the sources and how they are compiled."""
    sources = sorted(path for path in SOURCES.iterdir() if path.suffix in (".h", ".cpp"))
    parts = [*FLAGS, *(path.read_text(encoding="utf-8") for path in sources)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def file_name(name: str) -> str:
    """The file of a build. It changes with the sources: what was built from others is never loaded."""
    return f"{name}-{digest()}.so"


def best_here(cpuinfo: Path = Path("/proc/cpuinfo")) -> str | None:
    """The best build for this processor, by the flags that Linux tells; None on another architecture."""
    flags: set[str] = set()
    for line in cpuinfo.read_text(encoding="utf-8").splitlines():
        if line.startswith("flags"):
            flags.update(line.partition(":")[2].split())
            break
    return next((name for name in ARCHITECTURES if FLAG_OF[name] in flags), None)


def main(arguments: Sequence[str]) -> int:
    """Makes builds that are not there yet; 1, and a line that says why, when one cannot be made."""
    folder, *names = arguments
    names = names or [name for name in (best_here(),) if name]
    missing = [name for name in names if not (Path(folder) / file_name(name)).is_file()]
    compiler = find_compiler()
    if missing and compiler is None:
        print(f"no C++ compiler ({', '.join(COMPILERS)}): install one, or the torch engine computes without kernels")  # noqa: T201
        return 1
    for name in missing:
        try:
            build(compiler or [], name, Path(folder) / file_name(name))
        except subprocess.CalledProcessError as error:
            print(f"{error.cmd[0]} did not make the kernels {name}: {error.stderr.strip()[-300:]}")  # noqa: T201
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
