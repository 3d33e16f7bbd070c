"""Slots of one engine instance: who is inside the engine, in memory that gates and engine share.

A slot is the right of one request to be inside the engine. The file holds a process-shared POSIX semaphore, by which
gates sleep until a slot is given, and one byte per slot with the number of the gate that holds it. The bytes are the
truth and the semaphore only wakes: so a process may be killed between any two instructions and nothing is lost. The
engine frees the bytes of a gate that died, and `audit` makes up for a wake-up that the dead took along.

Taking is under a file lock, which the kernel releases when its holder dies; giving is one byte store.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import struct
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

FREE: Final = 0
MAX_GATES: Final = 250
MAX_SLOTS: Final = 65536

_SEMAPHORE_BYTES: Final = 64  # sem_t is 32 bytes on Linux; a cache line of its own
_HEADER: Final = struct.Struct("<4sIIB")  # magic, version, slots, whether admission is over
_MAGIC: Final = b"SLOT"
_VERSION: Final = 1
_ENDED: Final = _SEMAPHORE_BYTES + _HEADER.size - 1
_FIRST: Final = _SEMAPHORE_BYTES + 64

_libc = ctypes.PyDLL(None, use_errno=True)  # keeps the interpreter lock: these calls never block
_blocking = ctypes.CDLL(None, use_errno=True)


class _Timespec(ctypes.Structure):
    _fields_ = (("tv_sec", ctypes.c_long), ("tv_nsec", ctypes.c_long))


class SlotsError(RuntimeError):
    """The file is not a table of slots that this version can use."""


class Slots:
    """The table at `path`. Made by the engine with `create`, used by gates with `open`."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._close_file = weakref.finalize(self, os.close, descriptor)
        self._map = mmap.mmap(descriptor, 0)
        magic, version, count, _ = _HEADER.unpack_from(self._map, _SEMAPHORE_BYTES)
        self.count = int(count)
        if (magic, version) != (_MAGIC, _VERSION):
            raise SlotsError(
                f"{path}: not a table of slots of version {_VERSION}; gate and engine must be of one release"
            )
        self._end = _FIRST + self.count
        self._anchor = ctypes.c_char.from_buffer(self._map)
        self._semaphore = ctypes.c_void_p(ctypes.addressof(self._anchor))

    @classmethod
    def create(cls, path: Path, count: int) -> Self:
        """A new table of `count` free slots. The file appears whole, by a rename."""
        if not 1 <= count <= MAX_SLOTS:
            raise SlotsError(f"slots must be between 1 and {MAX_SLOTS}, not {count}")
        fresh = path.with_name(f".{path.name}.new")
        descriptor = os.open(fresh, os.O_CREAT | os.O_TRUNC | os.O_RDWR | os.O_CLOEXEC, 0o600)
        os.ftruncate(descriptor, _FIRST + count)
        with mmap.mmap(descriptor, 0) as memory:
            _HEADER.pack_into(memory, _SEMAPHORE_BYTES, _MAGIC, _VERSION, count, 0)
        slots = cls(fresh, descriptor)
        if _libc.sem_init(slots._semaphore, 1, count) != 0:
            raise OSError(ctypes.get_errno(), "sem_init failed", str(path))
        fresh.rename(path)
        slots.path = path
        return slots

    @classmethod
    def open(cls, path: Path) -> Self:
        """The table that an engine made. Raises FileNotFoundError and SlotsError."""
        return cls(path, os.open(path, os.O_RDWR | os.O_CLOEXEC))

    def republish(self) -> None:
        """Puts the table back at its path when someone removed it there. The engine's alone to call. Raises OSError.

        A file without a name cannot be given one again, but the descriptor that holds it can be opened by others of
        the same user through /proc (proc(5), `/proc/pid/fd`): so a link to it is the table, and not a copy.
        """
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(self.path.stat(), os.fstat(self._descriptor)):
                return
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = self.path.with_name(f".{self.path.name}.new")
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(f"/proc/{os.getpid()}/fd/{self._descriptor}")
        fresh.rename(self.path)

    def take(self, owner: int, timeout: float = 0.0) -> int | None:
        """One slot for the gate numbered `owner`, None when none was free for `timeout` seconds."""
        deadline = time.monotonic() + timeout
        woken = False
        while True:
            taken = self._claim(owner, 1)
            if taken is not None:
                if not woken:
                    _libc.sem_trywait(self._semaphore)
                return taken[0]
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            woken = self._wait(left)

    def take_all(self, owner: int, count: int) -> list[int] | None:
        """`count` slots at once or none: two gates that each held half of what they need would wait for ever."""
        taken = self._claim(owner, count)
        if taken is not None:
            for _ in taken:
                _libc.sem_trywait(self._semaphore)
        return taken

    def give(self, slot: int) -> None:
        """Frees a slot: by the engine when its request ended, by a gate when it never sent one."""
        self._map[_FIRST + slot] = FREE
        _libc.sem_post(self._semaphore)

    def recover(self, owner: int, keep: frozenset[int] = frozenset()) -> int:
        """Frees what a dead gate held, except the slots of requests still inside the engine. Returns how many."""
        with self._locked():
            held = [
                slot
                for slot, holder in enumerate(self._map[_FIRST : self._end])
                if holder == owner and slot not in keep
            ]
            for slot in held:
                self._map[_FIRST + slot] = FREE
        self.audit()
        return len(held)

    def audit(self) -> None:
        """Wakes for every free slot that no wake-up stands for. One too many does no harm: it finds no slot."""
        value = ctypes.c_int()
        _libc.sem_getvalue(self._semaphore, ctypes.byref(value))
        for _ in range(self.free() - value.value):
            _libc.sem_post(self._semaphore)

    def end_admission(self) -> None:
        """No slot can be taken from now on; those that are held stay so until they are given."""
        with self._locked():
            self._map[_ENDED] = 1

    def free(self) -> int:
        """Slots nobody holds."""
        return bytes(self._map[_FIRST : self._end]).count(FREE)

    def held(self) -> int:
        """Slots held by gates."""
        return self.count - self.free()

    def admits(self) -> bool:
        """Whether slots can be taken."""
        return not self._map[_ENDED]

    def holder(self, slot: int) -> int:
        """The number of the gate that holds `slot`, or FREE."""
        return int(self._map[_FIRST + slot])

    def close(self) -> None:
        """Leaves the table; the file stays. A table that nobody refers to any more is left, too."""
        if self._close_file.alive:
            del self._anchor
            self._map.close()
            self._close_file()

    def _claim(self, owner: int, count: int) -> list[int] | None:
        if self._map.find(b"\0", _FIRST, self._end) < 0:
            return None
        with self._locked():
            if not self.admits():
                return None
            taken: list[int] = []
            start = _FIRST
            while len(taken) < count:
                found = self._map.find(b"\0", start, self._end)
                if found < 0:
                    return None
                taken.append(found - _FIRST)
                start = found + 1
            for slot in taken:
                self._map[_FIRST + slot] = owner
            return taken

    def _wait(self, seconds: float) -> bool:
        seconds_left, fraction = divmod(time.clock_gettime(time.CLOCK_REALTIME) + seconds, 1)
        until = _Timespec(int(seconds_left), int(fraction * 1e9))
        if _blocking.sem_timedwait(self._semaphore, ctypes.byref(until)) == 0:
            return True
        if ctypes.get_errno() not in (errno.ETIMEDOUT, errno.EINTR):
            raise OSError(ctypes.get_errno(), "sem_timedwait failed", str(self.path))
        return False

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
