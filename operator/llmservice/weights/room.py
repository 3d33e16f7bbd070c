"""Room in the cache: a limit and a disk, and what was used longest ago goes first. What a live pod uses never goes."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from llmservice.weights.entry import Entry
from llmservice.weights.errors import ExitCode, WeightsError
from llmservice.weights.leases import used_entries, write_lease
from llmservice.weights.locks import lock, try_lock

GB: Final = 1e9


@dataclass(frozen=True)
class _Other:
    """Another model of the cache. `filled`: somebody fetches it now; `used`: a live pod has a lease on it."""

    entry: Entry
    size: int
    wanted: int
    filled: bool
    used: bool


def reserve(cache: Path, entry: Entry, size: int, *, pod: str | None, limit: int | None) -> list[str]:
    """Makes the entry, with the pod's lease on it, and room for it; `size` is that of all its files.

    Removes other models, the one used longest ago first, and answers their names. Raises WeightsError where the room
    cannot be made, before a byte is fetched.
    """
    removed = []
    with lock(cache / "lock"):
        entry.make()
        if pod is not None:
            write_lease(cache, pod, entry.name)
        entry.want(size)
        others = _others(cache, entry)
        while (lacking := _lacking(cache, entry, size, others, limit)) is not None:
            oldest = next((one for one in others if not one.filled and not one.used), None)
            if oldest is None or not _remove(cache, oldest.entry):
                if entry.size() >= size:
                    break  # it is here already, and the limit was lowered since
                if not any(entry.files.iterdir()) and not any(entry.partial.iterdir()):
                    (entry.folder / "wanted").unlink(missing_ok=True)
                raise _error(lacking, others)
            removed.append(oldest.entry.name)
            others.remove(oldest)
    return removed


def _others(cache: Path, entry: Entry) -> list[_Other]:
    """All but `entry`, the one used longest ago first."""
    used = used_entries(cache)
    found = []
    for folder in (cache / "entries").iterdir():
        other = Entry(folder)
        if other.name == entry.name or not folder.is_dir():
            continue
        with try_lock(other.lock) as free:
            found.append(_Other(other, other.size(), other.wanted(), filled=not free, used=other.name in used))
    return sorted(found, key=lambda one: one.entry.used_at())


def _lacking(cache: Path, entry: Entry, size: int, others: list[_Other], limit: int | None) -> str | None:
    """What is too small for the model, in words; None where it has room."""
    have = entry.size()
    if limit is not None:
        taken = sum(max(one.size, one.wanted) if one.filled else one.size for one in others)
        if taken + size > limit:
            room = max(0, limit - taken)
            left = f"of the cache's limit of {limit / GB:.2f} GB {room / GB:.2f} are left"
            return f"{size / GB:.2f} GB are needed, and {left}"
    disk = shutil.disk_usage(cache)
    promised = sum(max(0, one.wanted - one.size) for one in others if one.filled)
    if size - have > disk.free - promised:
        return (
            f"{(size - have) / GB:.2f} GB more are needed, and {max(0, disk.free - promised) / GB:.2f} of "
            f"{disk.total / GB:.2f} GB are free on the volume of {cache}"
        )
    return None


def _remove(cache: Path, entry: Entry) -> bool:
    """Removes a model that nobody fills; under its name it is gone at once."""
    with try_lock(entry.lock) as free:
        if not free:
            return False
        trash = cache / "trash" / f"{entry.name}.{os.getpid()}"
        trash.parent.mkdir(exist_ok=True)
        entry.folder.rename(trash)
    shutil.rmtree(trash.parent, ignore_errors=True)
    return True


def _error(lacking: str, others: list[_Other]) -> WeightsError:
    busy = sum(one.used or one.filled for one in others)
    kept = f"; {busy} other models are kept, for live pods use them" if busy else ""
    return WeightsError(
        ExitCode.DISK_FULL, f"no room for the weights: {lacking}{kept}. Make the volume or the cache's limit larger"
    )
