"""One demo at a time in a cluster, and never an end to a cluster that somebody else brought up."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from cluster import lifecycle, statefolder
from cluster.settings import Settings
from demo.terminal import DemoError

MARK = "demo"
"""File in a cluster's state folder: a demo brought the cluster up. It goes with the cluster."""


@contextlib.contextmanager
def alone(cache: Path, cluster: str) -> Iterator[None]:
    """Hold the demo's place in `cluster`; the kernel frees it when this process ends, however it ends.

    Raises DemoError, with the process id of the other, where another demo runs there.
    """
    path = cache / "locks" / f"demo-{cluster.replace('/', '_')}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            other = file.read().strip()
            raise DemoError(
                f"another demo (pid {other}) runs in cluster {cluster}: wait for its end, or stop it (Ctrl-C there)"
            ) from error
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def claim(settings: Settings) -> bool:
    """Whether the embedded cluster is the demo's to remove: none runs yet, or an earlier demo left it.

    Raises ClusterError where the state folder is somebody else's.
    """
    mark = settings.state / MARK
    statefolder.ensure(settings)
    if mark.exists() or any(component.pid for component in lifecycle.status(settings)):
        return mark.exists()
    mark.write_text("A demo brought this cluster up; the next one may remove it.\n")
    return True
