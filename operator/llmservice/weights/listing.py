"""What a source offers: its files with sizes and checksums, and the one way to read them."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatch
from pathlib import PurePosixPath
from typing import Any, Final, Protocol

from llmservice.weights.errors import ExitCode, WeightsError

PATTERNS: Final = ("*.safetensors", "*.engine", "*.json", "*.model", "*.jinja", "*.txt", "tokenizer*", "*.py")
"""What a serving engine reads; the rest of a source (other formats of the same weights) stays there."""
WEIGHTS: Final = (".safetensors", ".engine")


GGUF: Final = ".gguf"
MOST_NAMED: Final = 6


class Algorithm(StrEnum):
    """How a checksum is made. `git-sha1` is git's name of a blob: SHA-1 of `blob <size>`, a zero byte, content."""

    SHA256 = "sha256"
    GIT_SHA1 = "git-sha1"
    MD5 = "md5"


@dataclass(frozen=True)
class Checksum:
    """A checksum that the source itself states, in lower-case hexadecimal."""

    algorithm: Algorithm
    hex: str

    def begin(self, size: int) -> Any:
        """A hash object to be fed with the content, which has `size` bytes."""
        match self.algorithm:
            case Algorithm.SHA256:
                return hashlib.sha256()
            case Algorithm.MD5:
                return hashlib.md5(usedforsecurity=False)
            case Algorithm.GIT_SHA1:
                made = hashlib.sha1(usedforsecurity=False)
                made.update(f"blob {size}\0".encode())
                return made


@dataclass(frozen=True)
class RemoteFile:
    """One file of a source. `path` is relative, `size` in bytes; `etag` is the store's own version of the content."""

    path: str
    size: int
    checksum: Checksum | None = None
    etag: str = ""


@dataclass(frozen=True)
class Listing:
    """The files of one state of a source.

    `identity` names the content for the cache: where it is from, and which commit or state. `revision` is the latter
    alone, for people.
    """

    identity: str
    name: str
    revision: str
    files: tuple[RemoteFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


def of_folders(folders: tuple[str, ...]) -> str:
    """What sets a source with these folders apart from the same one with others."""
    return "".join(f" +{folder}" for folder in folders)


class Origin(Protocol):
    """A hub or a bucket, as the cache sees it."""

    @property
    def words(self) -> str:
        """The source in words, for messages."""
        ...

    @property
    def place(self) -> str:
        """Source, folders and credentials, without the state: what a moving revision is remembered under."""
        ...

    async def list(self) -> Listing:
        """The files that an engine needs. Raises WeightsError; BrokenTransferError may pass."""
        ...

    def read(self, file: RemoteFile, offset: int) -> AsyncIterator[bytes]:
        """The content from byte `offset` on. Raises WeightsError, and BrokenTransferError between pieces."""
        ...


@dataclass
class Wanted:
    """Chooses an engine's files from all that a source has: those of its top folder, and of `folders` below it.

    `file`: the one GGUF file of this name or glob, and nothing else.
    """

    where: str
    file: str | None = None
    folders: tuple[str, ...] = ()
    found: list[RemoteFile] = field(default_factory=list)
    ggufs: list[str] = field(default_factory=list)

    def add(self, file: RemoteFile) -> None:
        """Takes `file` in when an engine reads such files. Raises WeightsError for a path that leaves the folder."""
        path = PurePosixPath(file.path)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise WeightsError(ExitCode.BAD_FORMAT, f"{self.where} names a file outside of it: {file.path!r}")
        folder = "/".join(path.parts[:-1])
        if (folder and folder not in self.folders) or path.name.startswith("."):
            return
        if path.suffix == GGUF and not folder:
            self.ggufs.append(path.name)
        if any(fnmatch(path.name, one) for one in ([self.file] if self.file else PATTERNS)):
            self.found.append(file)

    def chosen(self) -> tuple[RemoteFile, ...]:
        """The files, smallest first. Raises WeightsError where no model is among them, or more than one."""
        if self.file:
            return self._one_gguf(self.file)
        names = {file.path for file in self.found if "/" not in file.path}
        whole = any(name.endswith(WEIGHTS) for name in names)
        if "config.json" not in names and (whole or not self.ggufs):
            raise WeightsError(
                ExitCode.BAD_FORMAT, f"{self.where} has no config.json in its top folder: name the folder that has it"
            )
        if not whole:
            remedy = f"write one of its GGUF files as file ({_some(self.ggufs)})" if self.ggufs else "convert them"
            raise WeightsError(
                ExitCode.BAD_FORMAT, f"{self.where} has no .safetensors files: {remedy}, or name a copy that has them"
            )
        for folder in self.folders:
            if not any(file.path.startswith(f"{folder}/") for file in self.found):
                raise WeightsError(
                    ExitCode.NOT_FOUND,
                    f"{self.where} has no files in its folder {folder!r}: correct the adapter's, the draft's or the "
                    "tokenizer's path in the spec",
                )
        return tuple(sorted(self._without_copies(names), key=lambda file: (file.size, file.path)))

    def _one_gguf(self, file: str) -> tuple[RemoteFile, ...]:
        if not self.found:
            raise WeightsError(
                ExitCode.NOT_FOUND,
                f"{self.where} has no file {file!r} in its top folder, but {_some(self.ggufs)}: correct file",
            )
        if len(self.found) > 1:
            several = _some([one.path for one in self.found])
            raise WeightsError(
                ExitCode.BAD_FORMAT, f"{self.where} has several files {file!r} ({several}): write the name of one"
            )
        return tuple(self.found)

    def _without_copies(self, names: Iterable[str]) -> list[RemoteFile]:
        """Without `consolidated*.safetensors`, the same weights once more in Mistral's own form."""
        usual = any(name.startswith("model") and name.endswith(".safetensors") for name in names)
        return [file for file in self.found if not (usual and fnmatch(file.path, "consolidated*.safetensors"))]


def _some(names: Iterable[str]) -> str:
    """Names in words, the first few."""
    known = sorted(names)
    more = f" and {len(known) - MOST_NAMED} more" if len(known) > MOST_NAMED else ""
    return ", ".join(known[:MOST_NAMED]) + more if known else "no GGUF file"


def credentials_key(*secrets: str | None) -> str:
    """Tells credentials apart without telling them; empty where there are none."""
    given = [secret for secret in secrets if secret]
    return hashlib.sha256("\n".join(given).encode()).hexdigest()[:16] if given else ""
