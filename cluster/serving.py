"""The engines' Python packages (torch, transformers …) in a folder of this host, for mounting at /opt/serving.

They weigh 5 GB: in an image they would be written four times on their way into a pod, mounted they are not copied.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

from cluster.artifacts import built, digest, log_path
from cluster.errors import ClusterError
from cluster.progress import say
from cluster.settings import REPOSITORY, Settings
from cluster.shell import run

REQUIREMENTS = REPOSITORY / "requirements" / "serving.txt"
KERNELS = REPOSITORY / "model_repository" / "torch" / "llmtorch" / "native_build.py"
MOUNT_PATH = "/opt/serving"  # where the Triton image's Python looks for them
PYTHON_VERSION = "3.11"  # the image's
UV_VERSION = "0.13.9"


def folder(settings: Settings) -> Path:
    """The folder, installed when these requirements are new."""
    why = "installing torch and what else the engines import, 5 GB; mounted into pods, so that no image carries it"
    found = built(settings, "serving", key(), why, lambda target: _install(settings, target))
    add_kernels(found)
    return found


def add_kernels(folder: Path) -> None:
    """Compiles the torch engine's kernels into the folder, once for these sources: pods have no compiler.

    Without a compiler here either, the engine computes with torch alone, slower.
    """
    command = (sys.executable, str(KERNELS), str(folder / "llmtorch_kernels"))
    made = subprocess.run(command, check=False, capture_output=True, text=True)
    if made.returncode:
        say(f"the torch engine goes without its kernels: {(made.stdout or made.stderr).strip()}")


def key() -> str:
    """Changes with the requirements."""
    return digest(REQUIREMENTS.read_bytes(), PYTHON_VERSION, "compiled")


def _install(settings: Settings, target: Path) -> None:
    program = shutil.which("uv") or _own_uv(settings)
    install = (program, "pip", "install", "--target", target, "--python", sys.executable)
    # Pods mount the folder read-only: what is not compiled here would be compiled at every start of every pod.
    options = (
        "--python-version",
        PYTHON_VERSION,
        "--compile-bytecode",
        "--require-hashes",
        "--requirement",
        REQUIREMENTS,
    )
    run([*install, *options], log_path(settings, "serving"), background=True)
    for package in ("torch", "transformers"):
        if not (target / package).is_dir():
            raise ClusterError(f"{REQUIREMENTS.relative_to(REPOSITORY)} did not install {package}: add it there")


def _own_uv(settings: Settings) -> Path:
    """The installer uv from PyPI in an environment of its own: it installs these packages in a tenth of pip's time."""

    def install(target: Path) -> None:
        venv.create(target, with_pip=True, symlinks=True)
        run([target / "bin" / "python", "-m", "pip", "install", f"uv=={UV_VERSION}"], log_path(settings, "uv"))

    return built(settings, "uv", UV_VERSION, "the installer of Python packages", install) / "bin" / "uv"
