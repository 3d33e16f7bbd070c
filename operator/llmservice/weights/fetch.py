"""The step itself: list, make room, fetch what is missing or damaged, link, report."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from llmservice.weights.download import FIRST_PAUSE_SECONDS, Transfers
from llmservice.weights.entry import RECHECK_SECONDS, Entry, Recorded, Verify, sha256_of
from llmservice.weights.errors import BrokenTransferError, WeightsError
from llmservice.weights.leases import write_lease
from llmservice.weights.listing import Listing, Origin, RemoteFile
from llmservice.weights.locks import lock, try_lock
from llmservice.weights.progress import Progress
from llmservice.weights.room import reserve

AT_ONCE: Final = 6
"""Files that come at the same time: one stream seldom fills a line."""
LIST_TRIES: Final = 4
POLL_SECONDS: Final = 0.5


@dataclass(frozen=True)
class CachePolicy:
    """How a cache is kept. `limit` in bytes, None for the whole volume; `pod` is the uid of its pod."""

    limit: int | None = None
    verify: Verify = Verify.CHANGED
    pod: str | None = None


@dataclass(frozen=True)
class Fetched:
    """A model in the cache. `transferred` bytes came over the network in this run, `repaired` files were damaged."""

    entry: Entry
    revision: str
    size: int
    transferred: int = 0
    repaired: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    offline: str = ""


async def fetch(
    origin: Origin,
    cache: Path,
    policy: CachePolicy,
    progress: Progress,
    pause_seconds: float = FIRST_PAUSE_SECONDS,
) -> Fetched:
    """Brings what `origin` offers into `cache` and answers where it is. Raises WeightsError, OSError.

    The source is asked each time, with this service's own credentials: what one service may read is not everybody's.
    Where it cannot be reached, what these credentials fetched before serves again.
    """
    progress.begin("list")
    _make(cache)
    try:
        listing = await _list(origin, pause_seconds)
    except BrokenTransferError as error:
        return await _offline(origin, cache, policy, error)
    entry = Entry.of(cache, listing)
    others = _of_others(entry, {file.path for file in listing.files})
    size = listing.size + sum(was.size for was in others.values())
    removed = reserve(cache, entry, size, pod=policy.pod, limit=policy.limit)
    await _await_lock(entry, listing, progress)
    return await _fill(origin, cache, entry, listing, policy, progress, pause_seconds, tuple(removed))


def _make(cache: Path) -> None:
    cache.mkdir(parents=True, exist_ok=True)


async def _list(origin: Origin, pause_seconds: float) -> Listing:
    for attempt in range(LIST_TRIES - 1):
        try:
            return await origin.list()
        except BrokenTransferError:
            await asyncio.sleep(pause_seconds * 2**attempt)
    return await origin.list()


async def _await_lock(entry: Entry, listing: Listing, progress: Progress) -> None:
    """Waits while another pod fills the entry, and tells how far it is."""
    with try_lock(entry.lock) as free:
        if free:
            return
    progress.begin("wait", listing.size, min(listing.size, entry.size()))
    while True:
        with try_lock(entry.lock) as free:
            if free:
                return
        await asyncio.sleep(POLL_SECONDS)
        progress.reach(min(listing.size, entry.size()))


async def _fill(
    origin: Origin,
    cache: Path,
    entry: Entry,
    listing: Listing,
    policy: CachePolicy,
    progress: Progress,
    pause_seconds: float,
    removed: tuple[str, ...],
) -> Fetched:
    with lock(entry.lock):
        known, damaged = await _check(entry, listing, policy.verify, progress)
        missing = [file for file in listing.files if file.path not in known]
        have = sum(known[path].size for path in known) + sum(_part_size(entry, file) for file in missing)
        if missing:
            progress.begin("download", listing.size, have)
            known |= await _bring(Transfers(origin, progress, pause_seconds), entry, missing)
        for stray in entry.files.iterdir():
            if stray.name not in known and not stray.is_dir():
                stray.unlink()
        for stray in entry.partial.iterdir():
            stray.unlink()
        known |= _of_others(entry, known.keys())
        if missing or damaged or known != entry.recorded() or policy.verify is Verify.ALWAYS or _is_old(entry):
            entry.record(listing, known)
        (entry.folder / "wanted").unlink(missing_ok=True)
        entry.touch()
    _remember(origin, cache, entry)
    return Fetched(entry, listing.revision, listing.size, progress.transferred, tuple(damaged), removed)


def _of_others(entry: Entry, asked: Set[str]) -> dict[str, Recorded]:
    """Files of folders that other services of this model asked for, such as their adapters: they stay."""
    recorded = {path: was for path, was in entry.recorded().items() if "/" in path and path not in asked}
    return {path: was for path, was in recorded.items() if (entry.files / path).is_file()}


async def _bring(transfers: Transfers, entry: Entry, missing: list[RemoteFile]) -> dict[str, Recorded]:
    """All of `missing`. The smallest comes alone: it shows what is wrong before much is fetched."""

    async def one(file: RemoteFile) -> None:
        async with gate:
            brought[file.path] = await transfers.bring(file, _part(entry, file), entry.files / file.path)

    brought: dict[str, Recorded] = {}
    gate = asyncio.Semaphore(AT_ONCE)
    await one(missing[0])
    try:
        async with asyncio.TaskGroup() as group:
            for file in missing[1:]:
                group.create_task(one(file))
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return brought


async def _check(
    entry: Entry, listing: Listing, verify: Verify, progress: Progress
) -> tuple[dict[str, Recorded], list[str]]:
    """(whole files by path, paths of files that were damaged). Files with a name and without a record are read."""
    recorded = entry.recorded()
    every = verify is Verify.ALWAYS or _is_old(entry)
    whole: dict[str, Recorded] = {}
    damaged: list[str] = []
    doubtful: list[RemoteFile] = []
    for file in listing.files:
        path, known = entry.files / file.path, recorded.get(file.path)
        if not path.is_file():
            if known is not None:
                damaged.append(file.path)
        elif not every and known is not None and Recorded.of(path, known.sha256) == known and known.size == file.size:
            whole[file.path] = known
        else:
            doubtful.append(file)
    if doubtful:
        progress.begin("verify", sum(file.size for file in doubtful))
    gate = asyncio.Semaphore(AT_ONCE)

    async def read(file: RemoteFile) -> None:
        async with gate:
            path = entry.files / file.path
            found = await asyncio.to_thread(_judged, path, file, recorded.get(file.path))
            progress.advance(file.size)
        if found is None:
            damaged.append(file.path)
        else:
            whole[file.path] = found

    await asyncio.gather(*map(read, doubtful))
    return whole, damaged


def _judged(path: Path, file: RemoteFile, known: Recorded | None) -> Recorded | None:
    """The file as it is, where it is as the source or an earlier check has it; else it is removed."""
    if path.stat().st_size == file.size:
        sha256 = sha256_of(path)
        if known is not None and known.size == file.size:
            right = sha256 == known.sha256
        else:
            right = file.checksum is not None and _stated(path, file) == file.checksum.hex
        if right:
            return Recorded.of(path, sha256)
    path.unlink()
    return None


def _stated(path: Path, file: RemoteFile) -> str:
    assert file.checksum is not None  # noqa: S101 - asked by the caller
    made = file.checksum.begin(file.size)
    with path.open("rb") as content:
        while block := content.read(1 << 22):
            made.update(block)
    return str(made.hexdigest())


def _is_old(entry: Entry) -> bool:
    checked = entry.checked_at()
    return bool(checked) and time.time() - checked > RECHECK_SECONDS


def _part(entry: Entry, file: RemoteFile) -> Path:
    """Where the file is while it comes; another content of the same name never continues it."""
    key = hashlib.sha256(f"{file.path} {file.size} {file.etag} {file.checksum}".encode()).hexdigest()[:16]
    return entry.partial / f"{file.path.replace('/', '_')}.{key}"


def _part_size(entry: Entry, file: RemoteFile) -> int:
    part = _part(entry, file)
    size = part.stat().st_size if part.exists() else 0
    return size if size <= file.size else 0


def _reference(origin: Origin, cache: Path) -> Path:
    return cache / "refs" / hashlib.sha256(origin.place.encode()).hexdigest()[:24]


def _remember(origin: Origin, cache: Path, entry: Entry) -> None:
    path = _reference(origin, cache)
    path.parent.mkdir(exist_ok=True)
    made = path.with_suffix(".new")
    made.write_text(entry.name, encoding="utf-8")
    made.replace(path)


async def _offline(origin: Origin, cache: Path, policy: CachePolicy, error: BrokenTransferError) -> Fetched:
    """What these credentials fetched before from this place, untouched since. Raises `error` where there is none."""
    path = _reference(origin, cache)
    with lock(cache / "lock"):
        name = path.read_text(encoding="utf-8").strip() if path.is_file() else ""
        entry = Entry(cache / "entries" / name)
        recorded = entry.recorded() if name else {}
        if not recorded:
            raise error
        for file, known in recorded.items():
            held = entry.files / file
            if not held.is_file() or Recorded.of(held, known.sha256) != known:
                raise WeightsError(error.code, f"{error}; the cache has it, but {file} is damaged there") from error
        if policy.pod is not None:
            write_lease(cache, policy.pod, entry.name)
        entry.touch()
    size = sum(known.size for known in recorded.values())
    return Fetched(entry, entry.revision(), size, offline=str(error))
