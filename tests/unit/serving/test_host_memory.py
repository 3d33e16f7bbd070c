"""Memory of the host, or of the container."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest

from llmserving.host_memory import give_back_freed_memory, host_memory

pytestmark = pytest.mark.unit


def test_memory_of_the_container_counts(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 8000 kB\nMemAvailable: 6000 kB\n")
    assert host_memory(meminfo, tmp_path) == (6000 * 1024, 8000 * 1024)
    (tmp_path / "memory.max").write_text("4096000\n")
    (tmp_path / "memory.current").write_text("3000000\n")
    (tmp_path / "memory.stat").write_text("anon 1\ninactive_file 500000\n")
    assert host_memory(meminfo, tmp_path) == (1596000, 4096000)
    (tmp_path / "memory.max").write_text("max\n")
    assert host_memory(meminfo, tmp_path) == (6000 * 1024, 8000 * 1024)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_what_was_freed_between_things_that_stay_goes_back_to_the_system() -> None:
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    size, count = 64 * 1024, 1024  # each too small for a mapping of its own
    taken = [library.malloc(size) for _ in range(count)]
    for address in taken:
        ctypes.memset(address, 1, size)
    last = library.malloc(size)  # stays, so the heap cannot shrink by itself
    for address in taken:
        library.free(ctypes.c_void_p(address))
    kept = resident_bytes()
    give_back_freed_memory()
    assert kept - resident_bytes() > size * count // 2
    library.free(ctypes.c_void_p(last))
