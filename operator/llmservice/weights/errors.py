"""How the weights step ends: exit codes and one clear cause.

`model_repository/llmserving/weight_progress.py` has the same codes for the sources that are read inside the serving
image; the operator reads both alike.
"""

from __future__ import annotations

import errno
from enum import IntEnum
from pathlib import Path


class ExitCode(IntEnum):
    """How the weights step ended, as the exit code of its container."""

    DONE = 0
    UNEXPECTED = 1
    INVALID_SOURCE = 2
    NOT_FOUND = 3
    UNAUTHORIZED = 4
    DISK_FULL = 5
    NETWORK = 6
    BAD_FORMAT = 7
    TLS = 8
    CORRUPT = 9


class WeightsError(Exception):
    """The weights cannot be had; the message is one line that says why and what to do."""

    def __init__(self, code: ExitCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class BrokenTransferError(WeightsError):
    """A transfer broke off, or the other side was busy: the same again, from where it stopped, may work."""


def cause_of(error: OSError, folder: Path) -> WeightsError:
    """The error of the file system in words of the weights step."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return WeightsError(ExitCode.DISK_FULL, f"the volume of {folder} is full: make it larger, or free space on it")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return WeightsError(
            ExitCode.UNEXPECTED,
            f"{error.filename or folder} may not be written: the cache's folder must belong to user 1000 "
            "(the node DaemonSet of the chart makes it so), or its claim must take the pod's fsGroup",
        )
    if error.errno in (errno.ENOLCK, errno.ENOTSUP):
        return WeightsError(
            ExitCode.UNEXPECTED,
            f"the volume of {folder} knows no file locks: take a file system that does, such as NFSv4",
        )
    return WeightsError(ExitCode.UNEXPECTED, f"cannot write the weights to {folder}: {error}")
