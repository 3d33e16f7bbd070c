"""Holds a pod's lease on its weights for as long as the pod lives: `python3 -m llmservice.weights.hold CACHE POD`.

A container of its own beside Triton. It imports next to nothing, so that it costs few megabytes.

Told to end, which happens when the pod goes, it leaves the lease with the oldest time there is: nobody need wait to see
whether it comes back (`leases.GRACE_SECONDS`).
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from pathlib import Path

from llmservice.weights.errors import cause_of

TOUCH_SECONDS = 60


def hold(lease: Path) -> None:
    """Locks the lease and keeps its time fresh until SIGTERM or SIGINT."""
    wanted = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
    lease.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(lease, os.O_RDWR | os.O_CREAT, 0o664)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    print(f"holding {lease.name}", flush=True)  # noqa: T201 -- the container's log
    while signal.sigtimedwait(wanted, TOUCH_SECONDS) is None:
        os.utime(descriptor)
    os.utime(descriptor, (0, 0))


def main(cache: Path, pod: str) -> int:
    """Holds the lease of `pod`; 1, with one line that says why, where the cache cannot be used."""
    try:
        hold(cache / "leases" / pod)
    except OSError as error:
        print(cause_of(error, cache), file=sys.stderr)  # noqa: T201 -- its last words
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
