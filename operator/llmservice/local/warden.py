"""A server that ends with the process which started it, however that one ends."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_SCRIPT: Final = 'read -r _; kill -KILL "-$1"; rm -rf -- "$2"*; shift 2; rm -rf -- "$@"'
"""Waits for the end of a pipe that nobody writes to."""


class Warden:
    """Kills the process group `group` when this process is gone, and removes its files.

    These are `leftovers` and what begins with the path `prefix`. A shell in a session of its own reads a pipe whose
    other end only this process holds, so that the kernel wakes it, SIGKILL included. Linux' parent death signal would
    reach the server alone, not its stubs, and would fire when a mere thread of this process ends.
    """

    def __init__(self, group: int, prefix: Path, leftovers: Sequence[Path] = ()) -> None:
        theirs, self._ours = os.pipe()  # neither is inherited by anybody else
        try:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, "warden", str(group), str(prefix), *map(str, leftovers)],
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,  # a signal to the terminal's group is not for it
            )
        except BaseException:
            os.close(self._ours)
            raise
        finally:
            os.close(theirs)

    def release(self) -> None:
        """Nothing is killed or removed any more."""
        self._process.kill()
        self._process.wait()
        os.close(self._ours)
