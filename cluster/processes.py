"""Long-running programs: started detached, known by process id and start time, stopped for certain.

A process id alone may have been given to somebody else since; together with its start time it cannot.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cluster.artifacts import digest
from cluster.errors import ClusterError
from cluster.packages import SYSTEM_PATH
from cluster.settings import Settings
from cluster.shell import tail

MARK = "LLMSERVICE_CLUSTER_OWNER"  # in the environment of every process that we start: the state folder
STOP_SECONDS = 10.0
POLL_SECONDS = 0.05
LOG_LIMIT = 20_000_000  # bytes; a longer log is put aside at the next start


@dataclass(frozen=True)
class Component:
    """A program of the cluster: how to start it and how to know that it works."""

    name: str
    command: tuple[str, ...]
    ready: Callable[[], bool]
    configuration: tuple[Path, ...] = ()  # files it reads once: a change restarts it
    files: Mapping[Path, str] = field(default_factory=dict)  # written before it starts, and by nobody who only looks
    seconds: float = 60.0  # until it must be ready


@dataclass(frozen=True)
class Running:
    """What a pid file says."""

    pid: int
    started: int  # clock ticks since boot, field 22 of /proc/<pid>/stat
    digest: str


def log(settings: Settings, name: str) -> Path:
    """The component's output."""
    return settings.state / "logs" / f"{name}.log"


def running(settings: Settings, name: str) -> Running | None:
    """The live process of a component, or None."""
    try:
        record = Running(**json.loads(_pid_file(settings, name).read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None
    return record if start_time(record.pid) == record.started else None


def start_time(pid: int) -> int | None:
    """Start time of a live process; None when it is gone or only waits to be reaped."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def ensure(settings: Settings, component: Component) -> str | None:
    """Start the component unless it runs as wanted; returns why it was started, or None. Does not wait."""
    for file, text in component.files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
    wanted = digest(*component.command, *(file.read_bytes() for file in component.configuration))
    wanted = digest(wanted, os.path.realpath(component.command[0]))
    current = running(settings, component.name)
    if current and current.digest == wanted:
        return None
    reason = "not running"
    if current:
        stop(settings, component.name)
        reason = "its configuration changed"
    elif _pid_file(settings, component.name).exists():
        reason = "it had died"
    _start(settings, component, wanted)
    return reason


def wait_ready(settings: Settings, component: Component) -> None:
    """Return once the component works; raises ClusterError with its last words when it does not."""
    deadline = time.monotonic() + component.seconds
    path = log(settings, component.name)
    while True:
        ready = component.ready()  # perhaps in somebody else's name: it must also live
        if running(settings, component.name) is None:
            raise ClusterError(f"{component.name} died while starting; {path} ends with:\n{tail(path)}")
        if ready:
            return
        if time.monotonic() > deadline:
            raise ClusterError(
                f"{component.name} is not ready after {component.seconds:.0f} s; {path} ends with:\n{tail(path)}"
            )
        time.sleep(POLL_SECONDS)


def stop(settings: Settings, name: str, seconds: float = STOP_SECONDS) -> bool:
    """Ask, wait, insist; True when something was stopped. Returns only when the process is gone."""
    current = running(settings, name)
    if current:
        terminate(current.pid, current.started, seconds)
    _pid_file(settings, name).unlink(missing_ok=True)
    return current is not None


def terminate(pid: int, started: int, seconds: float = STOP_SECONDS) -> None:
    """End one process by SIGTERM, after `seconds` by SIGKILL."""
    for sign, patience in ((signal.SIGTERM, seconds), (signal.SIGKILL, STOP_SECONDS)):
        if start_time(pid) != started:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, sign)
        deadline = time.monotonic() + patience
        while start_time(pid) == started and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
    if start_time(pid) == started:
        raise ClusterError(f"process {pid} does not end even by SIGKILL: it hangs in the kernel")


def marked(settings: Settings) -> Iterator[tuple[int, int]]:
    """(pid, start time) of every live process that carries our mark, pid file or not."""
    mark = f"{MARK}={settings.state}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark not in (process / "environ").read_bytes().split(b"\0"):
                continue
        except OSError:
            continue
        started = start_time(int(process.name))
        if started is not None:
            yield int(process.name), started


def _start(settings: Settings, component: Component, wanted: str) -> None:
    path = log(settings, component.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size > LOG_LIMIT:
        path.rename(path.with_suffix(".log.1"))
    environment = {key: os.environ[key] for key in ("HOME", "LANG", "TZ") if key in os.environ}
    environment |= {MARK: str(settings.state), "PATH": f"{settings.bin}:{SYSTEM_PATH}"}
    with path.open("ab") as output:
        process = subprocess.Popen(
            component.command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            cwd=settings.state,
            start_new_session=True,
        )
    process.returncode = 0  # it outlives us on purpose: without this Python complains that nobody waited
    _until_marked(process.pid)
    record = {"pid": process.pid, "started": start_time(process.pid) or 0, "digest": wanted}
    file = _pid_file(settings, component.name)
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps(record))
    fresh.rename(file)


def _until_marked(pid: int) -> None:
    """Return once `marked` can see a new process: in the midst of its exec, Linux shows no environment yet."""
    while start_time(pid) is not None:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if Path(f"/proc/{pid}/environ").read_bytes():
                return
        time.sleep(POLL_SECONDS / 10)


def _pid_file(settings: Settings, name: str) -> Path:
    return settings.state / "run" / f"{name}.pid"


def memory_mib(pid: int) -> int:
    """Resident memory of a process, in MiB."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20
