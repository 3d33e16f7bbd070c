"""One at a time across processes: an advisory lock on a file, freed by the kernel when its holder dies."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from cluster.progress import say


@contextlib.contextmanager
def held(path: Path, what: str) -> Iterator[None]:
    """Hold the lock; says so when it has to wait for another run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{what}: another run is at it; waiting for it to finish")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
