"""Slots of one engine instance: who is inside the engine, in memory that gates and engine share.

A slot is the right of one request to be inside the engine. One byte per slot holds the number of the gate that holds
it, and the bytes are the truth: a process may be killed between any two instructions and nothing is lost, for the
engine frees the bytes of a gate that died. Taking is under a file lock, which the kernel releases when its holder
dies; giving is one byte store.

How many slots may be taken, `count`, changes while all of them work. Held slots beyond a lowered count stay so until
they are given.

During a reload two gates take slots of one table. Each says in it how urgent the first request of its line is, and none
takes a slot that another's request comes before: the order is the same as if there were one line.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import struct
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

FREE: Final = 0
MAX_GATES: Final = 250
MAX_SLOTS: Final = 65536

Urgency = tuple[int, float]
"""Level (1 is the highest) and arrival, in seconds of the system's monotonic clock: the smaller goes first."""

_HEADER: Final = struct.Struct("<4sIIIB")  # magic, version, slots, bytes of slots in use, whether admission is over
_COUNTS: Final = struct.Struct("<II")
_COUNTS_AT: Final = 8
_MAGIC: Final = b"SLOT"
_VERSION: Final = 2
_ENDED: Final = _HEADER.size - 1
_FIRST_WAITER: Final = 64
_WAITER: Final = struct.Struct("<Bxxxxxxxd")  # level of a gate's first waiting request, 0 for none; its arrival
_FIRST: Final = 4096


class SlotsError(RuntimeError):
    """The file is not a table of slots that this version can use."""


class Slots:
    """The table at `path`. Made by the engine with `create`, used by gates with `open`."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._close_file = weakref.finalize(self, os.close, descriptor)
        if os.fstat(descriptor).st_size <= _FIRST:
            raise self._foreign()
        self._map = mmap.mmap(descriptor, 0)
        magic, version, *_ = _HEADER.unpack_from(self._map)
        if (magic, version) != (_MAGIC, _VERSION):
            raise self._foreign()

    @classmethod
    def create(cls, path: Path, count: int) -> Self:
        """A new table of `count` free slots. The file appears whole, by a rename. Raises SlotsError."""
        check_count(count)
        fresh = path.with_name(f".{path.name}.new")
        descriptor = os.open(fresh, os.O_CREAT | os.O_TRUNC | os.O_RDWR | os.O_CLOEXEC, 0o600)
        os.ftruncate(descriptor, _FIRST + MAX_SLOTS)  # sparse: only pages that are used take memory
        with mmap.mmap(descriptor, 0) as memory:
            _HEADER.pack_into(memory, 0, _MAGIC, _VERSION, count, count, 0)
        slots = cls(fresh, descriptor)
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

    @property
    def count(self) -> int:
        """How many slots may be held."""
        return int(_COUNTS.unpack_from(self._map, _COUNTS_AT)[0])

    def set_count(self, count: int) -> None:
        """Changes how many slots may be held, for everybody who uses the table. Raises SlotsError."""
        check_count(count)
        with self._locked():
            _, in_use = _COUNTS.unpack_from(self._map, _COUNTS_AT)
            _COUNTS.pack_into(self._map, _COUNTS_AT, count, max(count, in_use))

    def take(self, owner: int, count: int = 1, leave: int = 0, urgency: Urgency | None = None) -> list[int] | None:
        """`count` slots at once for the gate numbered `owner`, or None.

        None when less than `leave` would stay free, when admission is over, and when a request that waits in another
        gate is more urgent than `urgency`.
        """
        if self.free() - count < leave:
            return None
        with self._locked():
            if not self.admits() or self.free() - count < leave:
                return None
            if urgency is not None and self._others_wait(owner, urgency):
                return None
            taken: list[int] = []
            start = _FIRST
            while len(taken) < count:
                found = self._map.find(b"\0", start, self._end)
                taken.append(found - _FIRST)
                start = found + 1
            for slot in taken:
                self._map[_FIRST + slot] = owner
            return taken

    def wait(self, owner: int, urgency: Urgency | None) -> None:
        """Says how urgent the first request in the line of the gate numbered `owner` is; None when none waits."""
        level, arrived = (0, 0.0) if urgency is None else urgency
        with self._locked():
            _WAITER.pack_into(self._map, _waiter(owner), level, arrived)

    def give(self, slot: int) -> None:
        """Frees a slot: by the engine when its request ended, by a gate when it never sent one."""
        self._map[_FIRST + slot] = FREE

    def recover(self, owner: int, keep: frozenset[int] = frozenset()) -> int:
        """Frees what a dead gate held, except the slots of requests still inside the engine. Returns how many."""
        with self._locked():
            _WAITER.pack_into(self._map, _waiter(owner), 0, 0.0)
            held = [
                slot
                for slot, holder in enumerate(self._map[_FIRST : self._end])
                if holder == owner and slot not in keep
            ]
            for slot in held:
                self._map[_FIRST + slot] = FREE
        return len(held)

    def end_admission(self) -> None:
        """No slot can be taken from now on; those that are held stay so until they are given."""
        with self._locked():
            self._map[_ENDED] = 1

    def free(self) -> int:
        """Slots that may be taken; 0 while more are held than a lowered count."""
        return max(0, self.count - self.held())

    def held(self) -> int:
        """Slots held by gates."""
        used = bytes(self._map[_FIRST : self._end])
        return len(used) - used.count(FREE)

    def admits(self) -> bool:
        """Whether slots can be taken."""
        return not self._map[_ENDED]

    def holder(self, slot: int) -> int:
        """The number of the gate that holds `slot`, or FREE."""
        return int(self._map[_FIRST + slot])

    def close(self) -> None:
        """Leaves the table; the file stays. A table that nobody refers to any more is left, too."""
        if self._close_file.alive:
            self._map.close()
            self._close_file()

    @property
    def _end(self) -> int:
        """Slots above a lowered count may still be held, so what was ever in use is looked at."""
        return int(_FIRST + _COUNTS.unpack_from(self._map, _COUNTS_AT)[1])

    def _others_wait(self, owner: int, urgency: Urgency) -> bool:
        waiters = _WAITER.iter_unpack(self._map[_FIRST_WAITER : _waiter(MAX_GATES + 1)])
        return any(level and number != owner and (level, at) < urgency for number, (level, at) in enumerate(waiters, 1))

    def _foreign(self) -> SlotsError:
        return SlotsError(
            f"{self.path}: not a table of slots of version {_VERSION}; gate and engine must be of one release"
        )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)


def _waiter(owner: int) -> int:
    return _FIRST_WAITER + (owner - 1) * _WAITER.size


def check_count(count: int) -> None:
    """Raises SlotsError for a count that no table can have."""
    if not 1 <= count <= MAX_SLOTS:
        raise SlotsError(f"slots must be between 1 and {MAX_SLOTS}, not {count}")
