"""Memory of the host, or of the container."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmserving.host_memory import host_memory

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
