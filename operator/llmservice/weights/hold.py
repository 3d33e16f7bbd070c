"""Holds a pod's lease on its weights for as long as the pod lives: `python3 -m llmservice.weights.hold CACHE POD`.

A container of its own beside Triton. It imports next to nothing, so that it costs few megabytes.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from pathlib import Path

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


if __name__ == "__main__":
    hold(Path(sys.argv[1]) / "leases" / sys.argv[2])
