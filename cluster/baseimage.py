"""The base image `python:3.11-slim-bookworm` where no container registry is reachable: Debian, made by debootstrap."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

from cluster import packages
from cluster.artifacts import built, digest, log_path
from cluster.settings import Settings
from cluster.shell import answer, run

TAG = "docker.io/library/python:3.11-slim-bookworm"
RELEASE = "bookworm"  # its Python is 3.11
# libpython is for the Python backend's stub, venv for the Dockerfile's build stages.
INCLUDE = ("ca-certificates", "python3", "python3-venv", "libpython3.11")
# Nothing at run time reads these.
LEFT_OUT = (
    "dev",
    "proc",
    "sys",
    "debootstrap",
    "usr/share/doc",
    "usr/share/man",
    "usr/share/info",
    "usr/share/locale",
    "usr/share/lintian",
    "var/cache/apt",
    "var/cache/debconf",
    "var/lib/apt/lists",
    "var/log",
)


def archive(settings: Settings) -> Path:
    """The root file system as a tar archive, from the cache."""
    why = "base image of the project's images, from Debian packages; about 80 s the first time"
    return built(settings, "base", key(), why, lambda folder: _build(settings, folder)) / "root.tar"


def key() -> str:
    """Changes with what the image has and has not."""
    return digest(RELEASE, *INCLUDE, *LEFT_OUT)


def _build(settings: Settings, folder: Path) -> None:
    packages.ensure(settings, packages.IMAGES)
    root = folder / "root"
    command = ["debootstrap", "--variant=minbase", f"--include={','.join(INCLUDE)}", RELEASE, str(root), *_mirror()]
    run(command, log_path(settings, "base"), background=True)
    bin_folder = root / "usr" / "local" / "bin"
    for name in ("python", "python3"):  # where the official image has them
        (bin_folder / name).symlink_to("/usr/bin/python3")
    with tarfile.open(folder / "root.tar", "w") as tar:
        tar.add(root, ".", filter=_kept)
    run(["rm", "-rf", root], log_path(settings, "base"))


def _mirror() -> list[str]:
    """Where packages come from: as told, else where this host gets the same release, else debootstrap's own choice."""
    if told := os.environ.get("LLMSERVICE_DEBIAN_MIRROR"):
        return [told]
    wanted = ["apt-get", "indextargets", "--format", "$(CODENAME) $(COMPONENT) $(REPO_URI)", "Created-By: Packages"]
    sources = [line.split(" ", 2) for line in answer(wanted).splitlines()]
    return [uri for release, component, uri in sources if (release, component) == (RELEASE, "main")][:1]


def _kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leave out contents but keep the folders themselves: programs expect /var/log, /proc and their like."""
    path = entry.name.removeprefix("./")
    return None if any(path.startswith(f"{folder}/") for folder in LEFT_OUT) else entry
