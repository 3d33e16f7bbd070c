"""Which models live pods use. A pod's lease is a file that a small process of the pod keeps locked for its whole life.

The kernel frees the lock with the process, so that no clock and no API server is asked. The file's text is the name of
the entry. A process that was just started again has a grace of minutes before its lease counts as left behind.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from llmservice.weights.locks import try_lock

GRACE_SECONDS: Final = 600


def lease_path(cache: Path, pod: str) -> Path:
    """The lease of the pod with this uid."""
    return cache / "leases" / pod


def write_lease(cache: Path, pod: str, entry: str) -> None:
    """Notes that the pod uses `entry`. The file is written in place: its lock belongs to the file."""
    path = lease_path(cache, pod)
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o664), "w") as out:
        out.write(entry)


def used_entries(cache: Path) -> set[str]:
    """Names of the entries that live pods use; leases of pods that are gone are removed."""
    found: set[str] = set()
    folder = cache / "leases"
    if not folder.is_dir():
        return found
    for path in folder.iterdir():
        try:
            with try_lock(path) as free:
                if free and time.time() - path.stat().st_mtime > GRACE_SECONDS:
                    path.unlink()
                    continue
                found.add(path.read_text(encoding="utf-8").strip())
        except FileNotFoundError:
            continue
    return found
