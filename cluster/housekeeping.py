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
    packages.ensure(settings, (*packages.API_TIER, *packages.NODE, *packages.IMAGES, *packages.COMPILER))

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
    freed = 0
    for name in BUILT:
        with held(settings.cache / "locks" / f"{name}.lock", name):  # nobody is building it meanwhile
            for prefix in (f"{name}-", f".{name}-"):
                old = [
                    path
                    for path in settings.cache.glob(f"{prefix}*")
                    if path not in keep and path.name != images.BASE_CONTEXT
                ]
                freed += sum(_remove(path) for path in old)
    with held(settings.cache / "locks" / "buildah.lock", "images"):
        freed += sum(_remove(path) for path in images.unused(settings, everything=everything))
    say(f"cache {settings.cache}: {freed} MiB freed")
    return freed


def _remove(path: Path) -> int:
    """Remove a folder; returns the MiB it took."""
    size = int(answer(["du", "--summarize", "--block-size=1M", path]).split()[0])
    shutil.rmtree(path)
    return size
