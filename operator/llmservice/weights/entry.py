"""One model in the cache: its folder, what is recorded of it, and which of its files are whole.

entries/NAME-KEY/files/…       whole and checked; nothing else is ever under these names
entries/NAME-KEY/partial/…     what is being fetched, to be resumed
entries/NAME-KEY/entry.json    size, time and SHA-256 of each file, written when all are there
entries/NAME-KEY/wanted        bytes the whole will take, while it is filled
entries/NAME-KEY/used          its time is that of the last use
entries/NAME-KEY/lock          held while it is filled or removed
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from llmservice.weights.listing import Listing

KEY_LENGTH: Final = 12
HASH_BLOCK: Final = 4 << 20
RECHECK_SECONDS: Final = 7 * 24 * 3600
"""Files that look untouched are read and compared again after a week: disks forget without saying so."""


class Verify(StrEnum):
    """When files in the cache are compared with their checksums."""

    CHANGED = "Changed"
    ALWAYS = "Always"


@dataclass(frozen=True)
class Recorded:
    """What was true of a file when it was last checked. `mtime_ns` and `inode` tell whether it was touched since."""

    size: int
    mtime_ns: int
    inode: int
    sha256: str

    @classmethod
    def of(cls, path: Path, sha256: str) -> Recorded:
        """As it is now."""
        found = path.stat()
        return cls(found.st_size, found.st_mtime_ns, found.st_ino, sha256)


@dataclass(frozen=True)
class Entry:
    """A folder of the cache."""

    folder: Path

    @classmethod
    def of(cls, cache: Path, listing: Listing) -> Entry:
        """The entry for what was listed: a readable name, and a key so that another source never meets its files."""
        key = hashlib.sha256(listing.identity.encode()).hexdigest()[:KEY_LENGTH]
        return cls(cache / "entries" / f"{listing.name[:60]}-{key}")

    @property
    def name(self) -> str:
        """Its name in leases and messages."""
        return self.folder.name

    @property
    def files(self) -> Path:
        """The folder of whole files."""
        return self.folder / "files"

    @property
    def partial(self) -> Path:
        """The folder of files on their way."""
        return self.folder / "partial"

    @property
    def lock(self) -> Path:
        """The file to lock."""
        return self.folder / "lock"

    def make(self) -> None:
        """Makes the folders."""
        for folder in (self.folder, self.files, self.partial):
            folder.mkdir(parents=True, exist_ok=True)

    def touch(self) -> None:
        """Notes that it is used now."""
        (self.folder / "used").touch()

    def used_at(self) -> float:
        """When it was last used, in seconds of the file system's clock; 0 where that is not known."""
        for name in ("used", "lock"):
            try:
                return (self.folder / name).stat().st_mtime
            except OSError:
                continue
        return 0.0

    def size(self) -> int:
        """Bytes on disk, whole or not. Raises nothing: what vanishes meanwhile counts nothing."""
        return sum(_sizes(self.folder))

    def want(self, size: int) -> None:
        """Notes how large it will be."""
        (self.folder / "wanted").write_text(str(size), encoding="utf-8")

    def wanted(self) -> int:
        """How large it will be; 0 once it is whole."""
        try:
            return int((self.folder / "wanted").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return 0

    def record(self, listing: Listing, files: dict[str, Recorded]) -> None:
        """Writes what is known of each file, so that the next start need not read them."""
        said = {
            "identity": listing.identity,
            "revision": listing.revision,
            "files": {path: vars(recorded) for path, recorded in sorted(files.items())},
        }
        made = self.folder / "entry.json.new"
        with made.open("w", encoding="utf-8") as out:
            json.dump(said, out)
            out.flush()
            os.fsync(out.fileno())
        made.rename(self.folder / "entry.json")
        (self.folder / "wanted").unlink(missing_ok=True)

    def recorded(self) -> dict[str, Recorded]:
        """What is known of each file; nothing where no run came to its end."""
        described = self._described()
        return {path: Recorded(**fields) for path, fields in described.get("files", {}).items()}

    def revision(self) -> str:
        """The revision of the source that it holds; empty where no run came to its end."""
        return str(self._described().get("revision", ""))

    def checked_at(self) -> float:
        """When its files were last read and compared, in seconds of the file system's clock."""
        try:
            return (self.folder / "entry.json").stat().st_mtime
        except OSError:
            return 0.0

    def _described(self) -> dict[str, Any]:
        try:
            found = json.loads((self.folder / "entry.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sizes(folder: Path) -> Iterator[int]:
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                yield (Path(root) / name).lstat().st_size
            except FileNotFoundError:
                continue
