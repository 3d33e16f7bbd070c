"""Everything that the cache may hold: made ahead of need, and removed when these sources no longer use it."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cluster import baseimage, binaries, images, packages, pause, serving
from cluster.locks import held
from cluster.progress import say
from cluster.settings import Settings
from cluster.shell import answer

BUILT = ("kubernetes", *binaries.TOOLS, "pause", "base", "serving", "uv")


def prepare(settings: Settings) -> None:
    """Build programs, images and the engines' packages: downloads run beside compilations."""
    packages.ensure(settings, (*packages.API_TIER, *packages.NODE, *packages.IMAGES))

    def build_images() -> None:
        for name in images.IMAGES:
            images.build(settings, name)

    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(binaries.ensure, settings, binaries.FULL_TIER), pool.submit(build_images)]
        serving.folder(settings)
        pause.archive(settings)
        for job in jobs:
            job.result()


def current(settings: Settings) -> set[Path]:
    """The cache folders that these sources use."""
    names = [f"{name}-{key}" for name, key in binaries.artifact_names().items()]
    names += [f"pause-{pause.key()}", f"base-{baseimage.key()}", f"serving-{serving.key()}", f"uv-{serving.UV_VERSION}"]
    return {settings.cache / name for name in names}


def prune(settings: Settings, *, everything: bool = False) -> int:
    """Remove what earlier sources left in the cache, or all of it; returns the MiB freed."""
    keep = set() if everything else current(settings)
    prefixes = tuple(f"{dot}{name}-" for name in BUILT for dot in ("", "."))
    found = [path for path in settings.cache.glob("*") if path.name.startswith(prefixes) and path not in keep]
    with held(settings.cache / "locks" / "buildah.lock", "images"):
        found += images.unused(settings, everything=everything)
        freed = sum(_mebibytes(path) for path in found)
        for path in found:
            shutil.rmtree(path)
    say(f"cache {settings.cache}: {freed} MiB freed")
    return freed


def _mebibytes(path: Path) -> int:
    return int(answer(["du", "--summarize", "--block-size=1M", path]).split()[0])
