"""A control group for one process that is only files: a limit, and in use what the process really takes at that moment.

So an engine can be made as in a container of that size, and nothing else on the host disturbs.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

MIB: Final = 2**20
EMBEDDING_BYTES: Final = 49_152 * 576 * 4
"""Of SmolLM2-135M, in float32."""
BESIDE_BYTES: Final = 85 * MIB
"""tritonserver and two gates: proportional set sizes of a serving replica."""


def control_group(folder: Path, limit: int) -> tuple[Path, Path]:
    """Files of a host and a control group of `limit` bytes, in which this process is, and what runs beside it.

    Weights that were read once and copied are pages that the kernel gives up first; rows of the embeddings stay in use.
    """
    read_once = max(0, _mapped_bytes("model.safetensors") - EMBEDDING_BYTES)
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    (folder / "meminfo").write_text(f"MemTotal: {limit} kB\nMemAvailable: {limit} kB\n")
    (folder / "memory.max").write_text(str(limit))
    (folder / "memory.current").write_text(str(resident + BESIDE_BYTES))
    (folder / "memory.stat").write_text(f"inactive_file {read_once}\n")
    return folder / "meminfo", folder


def _mapped_bytes(name: str) -> int:
    """Resident bytes of the mappings of files called `name` in this process."""
    found, ours = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if not line.partition(":")[0].isalpha() and "-" in line.split(" ", 1)[0]:
            ours = line.endswith(name)
        elif ours and line.startswith("Rss:"):
            found += int(line.split()[1]) * 1024
    return found
