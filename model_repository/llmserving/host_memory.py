"""Memory of this host, or of the container it is."""

from __future__ import annotations

import contextlib
import ctypes
from pathlib import Path


def host_memory(meminfo: Path = Path("/proc/meminfo"), cgroup: Path = Path("/sys/fs/cgroup")) -> tuple[int, int]:
    """Bytes free and in all, of the host or of the container's limit, whichever is tighter (cgroup v2)."""
    fields = dict(line.split(":", 1) for line in meminfo.read_text(encoding="ascii").splitlines())
    free = int(fields["MemAvailable"].split()[0]) * 1024
    total = int(fields["MemTotal"].split()[0]) * 1024
    limit = cgroup / "memory.max"
    if limit.is_file() and (text := limit.read_text(encoding="ascii").strip()) != "max":
        used = int((cgroup / "memory.current").read_text(encoding="ascii"))
        # Pages of read files count as used, but the kernel gives them up first.
        stat = dict(line.split() for line in (cgroup / "memory.stat").read_text(encoding="ascii").splitlines())
        total = min(total, int(text))
        free = min(free, int(text) - used + int(stat.get("inactive_file", 0)))
    return max(0, free), total


def give_back_freed_memory() -> None:
    """Gives what this process has freed back to the system, where its C library keeps it (glibc's `malloc_trim`).

    Loading weights frees buffers of many sizes between others that stay: of SmolLM2 up to 180 MiB stayed with the
    process, and whether they did changed from start to start.
    """
    with contextlib.suppress(AttributeError):  # other C libraries have no such call
        ctypes.CDLL(None).malloc_trim(0)
