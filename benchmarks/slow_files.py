"""The files of a folder, each read answered after a while, as those of a file server are.

A read-only file system in a process of its own, by the kernel's FUSE protocol (linux/fuse.h, 7.31) and without its
library: what a benchmark of readers needs and no more. Mounting takes root and /dev/fuse.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.figures import ROOT

ROOT_NODE: Final = 1
READ_BYTES: Final = 128 * 1024
"""The most that the kernel asks for at once, as its readahead does by default."""
THREADS: Final = 64
FOREVER: Final = 3600
_LOOKUP, _FORGET, _GETATTR, _OPEN, _READ, _RELEASE = 1, 2, 3, 14, 15, 18
_FLUSH, _INIT, _INTERRUPT, _DESTROY, _BATCH_FORGET = 25, 26, 36, 38, 42
_ASYNC_READ, _KEEP_CACHE, _DETACH = 1, 2, 2
_READ_ONLY: Final = 1
_IN: Final = struct.Struct("=IIQQIIIHH")
_OUT: Final = struct.Struct("=IiQ")


class SlowFiles:
    """Answers the kernel for the files of one folder, which are known when it begins."""

    def __init__(self, device: int, folder: Path, seconds: float) -> None:
        self._device = device
        self._seconds = seconds
        self._paths = sorted(path for path in folder.iterdir() if path.is_file())
        self._nodes = {path.name.encode(): number for number, path in enumerate(self._paths, ROOT_NODE + 1)}
        self._files = {node: os.open(folder / name.decode(), os.O_RDONLY) for name, node in self._nodes.items()}
        self._folder = folder
        self._calls: dict[int, Callable[[int, bytes], bytes]] = {
            _INIT: self._init,
            _LOOKUP: self._lookup,
            _GETATTR: self._getattr,
            _OPEN: lambda *_: struct.pack("=QII", 0, _KEEP_CACHE, 0),
            _READ: self._read,
            **dict.fromkeys((_RELEASE, _FLUSH, _DESTROY), lambda *_: b""),
        }

    def serve(self) -> None:
        """Answers until the file system is unmounted."""
        while True:
            try:
                request = os.read(self._device, READ_BYTES + 4096)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.ENOENT, errno.EAGAIN):
                    continue
                return  # ENODEV: unmounted
            _, code, unique, node, *_ = _IN.unpack_from(request)
            if code in (_FORGET, _BATCH_FORGET, _INTERRUPT):
                continue
            failed, answer = self._answer(code, node, request[_IN.size :])
            os.write(self._device, _OUT.pack(_OUT.size + len(answer), -failed, unique) + answer)

    def _answer(self, code: int, node: int, body: bytes) -> tuple[int, bytes]:
        try:
            return 0, self._calls[code](node, body)
        except KeyError:
            return (errno.ENOENT if code == _LOOKUP else errno.ENOSYS), b""

    def _init(self, _: int, body: bytes) -> bytes:
        readahead = struct.unpack_from("=III", body)[2]
        return struct.pack("=IIIIHHIIHHI28x", 7, 31, readahead, _ASYNC_READ, THREADS, THREADS, READ_BYTES, 1, 32, 0, 0)

    def _lookup(self, _: int, body: bytes) -> bytes:
        node = self._nodes[body.rstrip(b"\0")]
        return struct.pack("=QQQQII", node, 0, FOREVER, FOREVER, 0, 0) + self._attributes(node)

    def _getattr(self, node: int, _: bytes) -> bytes:
        return struct.pack("=QII", FOREVER, 0, 0) + self._attributes(node)

    def _attributes(self, node: int) -> bytes:
        size = 0 if node == ROOT_NODE else os.fstat(self._files[node]).st_size
        mode = stat.S_IFDIR | 0o755 if node == ROOT_NODE else stat.S_IFREG | 0o444
        times = (0, 0, 0, 0, 0, 0)
        return struct.pack("=6Q10I", node, size, size // 512, *times, mode, 1, 0, 0, 0, 4096, 0)

    def _read(self, node: int, body: bytes) -> bytes:
        _, offset, size = struct.unpack_from("=QQI", body)
        time.sleep(self._seconds)
        return os.pread(self._files[node], size, offset)


class NotMountedError(RuntimeError):
    """The files cannot be mounted here."""


@contextmanager
def slow_files(folder: Path, mount_point: Path, seconds: float) -> Iterator[Path]:
    """The files of `folder` at `mount_point`, each read of at most `READ_BYTES` answered after `seconds`.

    Raises `NotMountedError` where it cannot be mounted.
    """
    command = [sys.executable, "-m", "benchmarks.slow_files", str(folder), str(mount_point), str(seconds)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            if (said := process.stdout.readline()) != "\n":
                raise NotMountedError(said.strip() or "its server ended")
            yield mount_point
        finally:
            _libc().umount2(str(mount_point).encode(), _DETACH)
            process.terminate()


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def main(folder: Path, mount_point: Path, seconds: float) -> None:
    """Mounts, prints an empty line, or the reason why not, and serves."""
    try:
        device = os.open("/dev/fuse", os.O_RDWR)
    except OSError as error:
        print(error, flush=True)
        return
    served = SlowFiles(device, folder, seconds)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other,max_read={READ_BYTES}"
    if _libc().mount(b"slow-files", str(mount_point).encode(), b"fuse", _READ_ONLY, options.encode()):
        print(f"mount: {os.strerror(ctypes.get_errno())}", flush=True)
        return
    print(flush=True)
    for _ in range(THREADS - 1):
        threading.Thread(target=served.serve, daemon=True).start()
    served.serve()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]))
