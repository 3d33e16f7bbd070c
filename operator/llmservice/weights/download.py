"""Brings one file: resumed where an earlier try stopped, checked as it comes, visible only when it is whole."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from llmservice.weights.entry import HASH_BLOCK, Recorded
from llmservice.weights.errors import BrokenTransferError, ExitCode, WeightsError, cause_of
from llmservice.weights.listing import Algorithm, Origin, RemoteFile
from llmservice.weights.progress import Progress

WRITE_BYTES: Final = 1 << 18
MOST_TRIES: Final = 6
"""In a row, without a single byte between them."""
FIRST_PAUSE_SECONDS: Final = 1.0


class Sink:
    """A partial file that is appended to, and the hashes of all that is in it."""

    def __init__(self, path: Path, file: RemoteFile) -> None:
        self.sha256: Any = hashlib.sha256()
        self.stated: Any = file.checksum.begin(file.size) if file.checksum else None
        self.size = 0
        self._most = file.size
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o664)
        self._file = os.fdopen(descriptor, "r+b", buffering=0)

    def open(self) -> None:
        """Reads what is there. More than the file can have is thrown away. Raises OSError."""
        if os.fstat(self._file.fileno()).st_size > self._most:
            self._file.truncate(0)
        while block := self._file.read(HASH_BLOCK):
            self._hash(block)

    def write(self, data: bytes) -> None:
        """Appends. Raises OSError."""
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]
        self._hash(data)

    def close(self) -> None:
        """Brings all to the disk."""
        if not self._file.closed:
            os.fsync(self._file.fileno())
            self._file.close()

    def _hash(self, data: bytes) -> None:
        self.size += len(data)
        self.sha256.update(data)
        if self.stated is not None:
            self.stated.update(data)


@dataclass
class Transfers:
    """All downloads of one run. `md5_is_content` is what was found of a store's ETags.

    With some encryptions they look like MD5 sums and are none: a file that comes the same twice is then right.
    """

    origin: Origin
    progress: Progress
    pause_seconds: float = FIRST_PAUSE_SECONDS
    md5_is_content: bool = True
    _seen: dict[str, str] = field(default_factory=dict)

    async def bring(self, file: RemoteFile, partial: Path, final: Path) -> Recorded:
        """Brings `file` to `final`, by way of `partial`. Raises WeightsError."""
        while True:
            try:
                sha256 = await self._whole(file, partial)
                if sha256 is not None:
                    return _put(partial, final, sha256)
                _drop(partial)
            except OSError as error:
                raise cause_of(error, partial) from error
            self.progress.advance(-file.size)

    async def _whole(self, file: RemoteFile, partial: Path) -> str | None:
        """The SHA-256 of the file once all of it is there; None where it is not what it should be, once."""
        tries = 0
        while True:
            sink = Sink(partial, file)
            before = 0
            try:
                await _in_thread(sink.open)
                before = sink.size
                await self._transfer(file, sink)
            except BrokenTransferError:
                tries = 1 if sink.size > before else tries + 1
                if tries >= MOST_TRIES:
                    raise
                await asyncio.sleep(self.pause_seconds * 2 ** (tries - 1))
                continue
            finally:
                await _in_thread(sink.close)
            return self._judge(file, sink)

    async def _transfer(self, file: RemoteFile, sink: Sink) -> None:
        if sink.size == file.size:
            return
        waiting: list[bytes] = []
        size = 0
        try:
            async for piece in self.origin.read(file, sink.size):
                waiting.append(piece)
                size += len(piece)
                if sink.size + size > file.size:
                    raise WeightsError(
                        ExitCode.CORRUPT, f"{file.path} of {self.origin.words} is longer than its {file.size} bytes"
                    )
                if size >= WRITE_BYTES:
                    data, waiting, size = waiting, [], 0
                    await self._write(sink, data)
        finally:
            await self._write(sink, waiting)
        if sink.size < file.size:
            raise BrokenTransferError(
                ExitCode.NETWORK, f"{file.path} of {self.origin.words} broke off after {sink.size} of {file.size} bytes"
            )

    async def _write(self, sink: Sink, pieces: list[bytes]) -> None:
        data = b"".join(pieces)
        if data:
            await _in_thread(sink.write, data)
            self.progress.advance(len(data), transferred=True)

    def _judge(self, file: RemoteFile, sink: Sink) -> str | None:
        sha256 = str(sink.sha256.hexdigest())
        if file.checksum is None or sink.stated.hexdigest() == file.checksum.hex:
            return sha256
        if file.checksum.algorithm is Algorithm.MD5 and (
            not self.md5_is_content or self._seen.get(file.path) == sha256
        ):
            self.md5_is_content = False
            return sha256
        if file.path in self._seen:
            raise WeightsError(
                ExitCode.CORRUPT,
                f"{file.path} of {self.origin.words} does not have the {file.checksum.algorithm.value} it should have, "
                "twice in a row: something between here and there changes it, or the source is damaged",
            )
        self._seen[file.path] = sha256
        return None


def _put(partial: Path, final: Path, sha256: str) -> Recorded:
    final.parent.mkdir(parents=True, exist_ok=True)
    partial.replace(final)
    return Recorded.of(final, sha256)


def _drop(partial: Path) -> None:
    partial.unlink()


async def _in_thread(work: Callable[..., None], *arguments: object) -> None:
    """`work` in a thread. Cancelled, it is waited for all the same: nobody else may touch the file meanwhile."""
    running = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait({running})
        raise
