"""Tearing down to nothing, in the order that lets each part undo its own work, and then by force."""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cluster import cgroups, network, processes
from cluster.errors import ClusterError
from cluster.settings import Settings

# Those that would start things again go before what they start; those of one stage go side by side.
STAGES = (
    ("prometheus", "prometheus-targets", "kwok", "coredns", "kube-proxy"),
    ("kube-scheduler", "kube-controller-manager", "kubelet"),
    ("kube-apiserver", "containerd"),
    ("etcd",),
)
STOP_SECONDS = 3.0  # nothing that they could still save is kept
# Folders that components make outside of the state folder; removed when they are empty.
FIXED_FOLDERS = (
    "/var/log/containers",
    "/var/lib/cni/results",
    "/var/lib/cni/cache",
    "/var/lib/cni",
    "/var/lib/kubelet/device-plugins",
    "/var/lib/kubelet",
    "/run/containerd/s",
    "/run/containerd",
)
MNT_DETACH = 2


def teardown(settings: Settings) -> None:
    """End processes and containers, then take away mounts, rules, the bridge and stray files. Repeatable."""
    for stage in STAGES:
        with ThreadPoolExecutor(len(stage)) as pool:
            list(pool.map(lambda name: processes.stop(settings, name, STOP_SECONDS), stage))
    cgroups.remove(settings)
    _end_marked(settings)
    _unmount(settings.state)
    network.remove(settings)
    _remove_stray_files(settings)


def _end_marked(settings: Settings) -> None:
    """Containerd's shims, and components whose pid file was lost."""
    for _ in range(3):
        found = list(processes.marked(settings))
        if not found:
            return
        with ThreadPoolExecutor(len(found)) as pool:
            list(pool.map(lambda process: processes.terminate(process[0], process[1], seconds=1.0), found))
    raise ClusterError(f"processes of the cluster keep coming back: {sorted(pid for pid, _ in found)}")


def _unmount(folder: Path) -> None:
    """Detach every mount below a folder, deepest first."""
    libc = ctypes.CDLL(None, use_errno=True)
    for _ in range(3):  # a mount can hide another on the same place
        points = sorted(_mounts_below(folder), reverse=True)
        for point in points:
            if libc.umount2(os.fsencode(point), MNT_DETACH):
                error = ctypes.get_errno()
                raise ClusterError(f"cannot unmount {point}: {os.strerror(error)}")
        if not points:
            return
        time.sleep(processes.POLL_SECONDS)


def _mounts_below(folder: Path) -> list[str]:
    points = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        point = line.split()[4].encode().decode("unicode_escape")
        if Path(point).is_relative_to(folder):
            points.append(point)
    return points


def _remove_stray_files(settings: Settings) -> None:
    """What components write outside of the state folder because its place is fixed in their source."""
    for link in Path("/var/log/containers").glob("*"):
        if link.is_symlink() and link.readlink().is_relative_to(settings.state):
            link.unlink()
    sandboxes = settings.state / "containerd" / "root" / "io.containerd.grpc.v1.cri" / "sandboxes"
    for sandbox in sandboxes.glob("*"):
        for result in Path("/var/lib/cni/results").glob(f"*-{sandbox.name}-*"):
            result.unlink()
    kubelet = Path("/var/lib/kubelet")
    if kubelet.exists() and {path.name for path in kubelet.iterdir()} == {"device-plugins"}:  # no other kubelet's
        for name in ("kubelet.sock", "kubelet_internal_checkpoint"):
            (kubelet / "device-plugins" / name).unlink(missing_ok=True)
    for folder in FIXED_FOLDERS:
        with contextlib.suppress(OSError):
            Path(folder).rmdir()
