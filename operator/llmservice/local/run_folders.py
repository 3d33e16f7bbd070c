"""The temporary folders of a run: gone with it, and those of a run that was killed go with the next one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - where Linux has it
PREFIX: Final = "llmservice-"
LOCK: Final = "run.lock"
"""File in each folder, locked as long as its run lives: a process id may have been given to somebody else since."""


@dataclass(frozen=True)
class Folders:
    """`work` holds repository and log, `run` (in shared memory) the sockets and tables of slots."""

    work: Path
    run: Path


@contextmanager
def folders() -> Iterator[Folders]:
    """Temporary folders, gone afterwards. The name in shared memory is short: a socket's path has 107 bytes."""
    parents = (Path(tempfile.gettempdir()), SHARED_MEMORY)
    for parent in parents:
        remove_leftovers(parent)
    with contextlib.ExitStack() as stack:
        yield Folders(*(stack.enter_context(_held(parent)) for parent in parents))


@contextmanager
def _held(parent: Path) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    try:
        unnamed = folder / "run"
        with unnamed.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            unnamed.rename(folder / LOCK)  # locked before it is seen
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_leftovers(parent: Path) -> None:
    """Removes the folders of this user in `parent` whose runs are dead. Those without a lock stay."""
    for lock in parent.glob(f"{PREFIX}*/{LOCK}"):
        if not _is_ours(lock):
            continue
        with contextlib.suppress(OSError), lock.open() as file:  # held, or just removed
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent, ignore_errors=True)


def _is_ours(lock: Path) -> bool:
    """Whether folder and lock are this user's own and no links: everybody may write beside them."""
    try:
        folder, file = lock.parent.lstat(), lock.lstat()
    except OSError:
        return False
    owned = folder.st_uid == file.st_uid == os.getuid()
    return owned and stat.S_ISDIR(folder.st_mode) and stat.S_ISREG(file.st_mode)
