"""A control group of the cluster's own, so that everything a pod started can be found and ended."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from cluster.settings import Settings

MOUNT = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "cpuset", "memory", "pids", "hugetlb")


def ensure_root(settings: Settings) -> str:
    """Make the group in every hierarchy; returns its name as the kubelet wants it."""
    for hierarchy in hierarchies():
        folder = hierarchy / settings.cgroup
        folder.mkdir(exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):  # empty in a new v1 group, and then no process may enter
            with contextlib.suppress(OSError):
                if (folder / setting).exists() and not (folder / setting).read_text().strip():
                    (folder / setting).write_text((hierarchy / setting).read_text())
    if unified():
        for folder in (MOUNT, MOUNT / settings.cgroup):
            for controller in CONTROLLERS:
                with contextlib.suppress(OSError):
                    (folder / "cgroup.subtree_control").write_text(f"+{controller}")
    return f"/{settings.cgroup}"


def remove(settings: Settings, seconds: float = 10.0) -> int:
    """Kill every process in the cluster's group and remove it; returns how many were killed."""
    killed: set[int] = set()
    deadline = time.monotonic() + seconds
    while (pids := set(_members(settings))) and time.monotonic() < deadline:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed |= pids
        time.sleep(0.05)
    for hierarchy in hierarchies():
        top = hierarchy / settings.cgroup
        if not top.exists():
            continue
        folders = sorted((path for path in top.rglob("*") if path.is_dir()), key=lambda path: -len(path.parts))
        for folder in [*folders, top]:
            with contextlib.suppress(OSError):
                folder.rmdir()
    return len(killed)


def unified() -> bool:
    """Whether this host has control groups v2 only."""
    return (MOUNT / "cgroup.controllers").exists()


def hierarchies() -> list[Path]:
    """The roots of the mounted hierarchies."""
    if unified():
        return [MOUNT]
    return [folder for folder in sorted(MOUNT.iterdir()) if (folder / "cgroup.procs").exists()]


def _members(settings: Settings) -> Iterator[int]:
    for hierarchy in hierarchies():
        for file in (hierarchy / settings.cgroup).rglob("cgroup.procs"):
            with contextlib.suppress(OSError):
                yield from (int(pid) for pid in file.read_text().split())
