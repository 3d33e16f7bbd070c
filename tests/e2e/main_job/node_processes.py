"""Processes of pods on the embedded cluster's node, which is this host."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.main_job.kube import Manifest


def kill(pod: Manifest, command: str) -> None:
    """Ends a pod's process that has this word in its command line, the way a crash does: without a word."""
    uid = pod["metadata"]["uid"]
    found = [pid for pid in _members(uid) if command in _command_line(pid)]
    assert found, f"no process {command!r} in pod {pod['metadata']['name']}"
    os.kill(min(found), signal.SIGKILL)


def _members(uid: str) -> Iterator[int]:
    """Processes in the control group of a pod; systemd writes its uid with underscores."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            groups = (folder / "cgroup").read_text()
            if f"pod{uid}" in groups or f"pod{uid.replace('-', '_')}" in groups:
                yield int(folder.name)


def _command_line(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""
