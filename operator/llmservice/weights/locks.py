"""File locks that the kernel frees when their process dies, between the pods of a node or of a shared volume."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MODE = 0o664


@contextmanager
def try_lock(path: Path, *, shared: bool = False) -> Iterator[bool]:
    """Whether the lock could be had, at once; it is held meanwhile. Makes the file. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, MODE)
    try:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """Holds the lock, for which it waits. For short work only. Makes the file. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
