"""Ports: the preferred one, or any free one where somebody else has it; kept while their components run."""

from __future__ import annotations

import json
import socket
from pathlib import Path

from cluster import processes
from cluster.errors import ClusterError
from cluster.settings import Settings

PREFERRED = {
    "api": 26443,
    "etcd": 22379,
    "etcd-peer": 22380,
    "controller-manager": 20257,
    "scheduler": 20259,
    "kwok": 20247,
    "kubelet": 20250,
    "kubelet-health": 20248,
    "proxy-metrics": 20249,
    "proxy-health": 20256,
    "dns-health": 20253,
}
_COMPONENTS = {
    "etcd": "etcd",
    "etcd-peer": "etcd",
    "controller-manager": "kube-controller-manager",
    "scheduler": "kube-scheduler",
    "kwok": "kwok",
    "kubelet": "kubelet",
    "kubelet-health": "kubelet",
    "proxy-metrics": "kube-proxy",
    "proxy-health": "kube-proxy",
    "dns-health": "coredns",
}
"""Who listens on a port that may change; the API server's is in every kubeconfig and certificate."""


def ensure(settings: Settings, address: str) -> dict[str, int]:
    """The cluster's ports, chosen at its first start; `address` is where the API server listens.

    A port that somebody else took while its component did not run is exchanged for another: a cluster must never
    talk to the etcd of its neighbour. Raises ClusterError when the API server's cannot be had or changed.
    """
    recorded = read(settings)
    if recorded:
        if settings.api_port not in (None, recorded["api"]):
            raise ClusterError(
                f"the cluster {settings.name} was made with API port {recorded['api']}, not {settings.api_port}: "
                "run `python3 -m cluster down` first, or leave LLMSERVICE_CLUSTER_API_PORT unset"
            )
        return _exchanged(settings, recorded)
    chosen: dict[str, int] = {}
    for name, preferred in PREFERRED.items():
        host = address if name == "api" else "127.0.0.1"
        if name == "api" and settings.api_port is not None:
            require_free(host, settings.api_port, "API server", "set LLMSERVICE_CLUSTER_API_PORT to another port")
            chosen[name] = settings.api_port
        else:
            chosen[name] = preferred if _free(host, preferred) else any_free(host, set(chosen.values()))
    _write(settings, chosen)
    return chosen


def _exchanged(settings: Settings, recorded: dict[str, int]) -> dict[str, int]:
    chosen = dict(recorded)
    for name, component in _COMPONENTS.items():
        if processes.running(settings, component) is None and not _free("127.0.0.1", recorded[name]):
            chosen[name] = any_free("127.0.0.1", set(chosen.values()))
    if chosen != recorded:
        _write(settings, chosen)
    return chosen


def _write(settings: Settings, chosen: dict[str, int]) -> None:
    path = settings.state / "ports.json"
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(chosen, indent=1))
    fresh.rename(path)


def read(settings: Settings) -> dict[str, int]:
    """The ports of a cluster that was started before; empty when there is none."""
    path = settings.state / "ports.json"
    if not path.exists():
        return {}
    recorded: dict[str, int] = json.loads(path.read_text())
    return recorded if recorded.keys() == PREFERRED.keys() else {}


def require_free(host: str, port: int, who: str, remedy: str) -> None:
    """Raise ClusterError that names the holder when the port is taken."""
    if not _free(host, port):
        holder = _holder(port)
        by = f" by {holder}" if holder else ""
        raise ClusterError(f"{who}: port {port} on {host} is in use{by}: stop that process or {remedy}")


def _free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def any_free(host: str, taken: set[int]) -> int:
    """A port that nobody has, and that is not among `taken`."""
    while True:
        with socket.socket() as probe:
            probe.bind((host, 0))
            port: int = probe.getsockname()[1]
        if port not in taken:
            return port


def _holder(port: int) -> str | None:
    """Name and process id of who listens on a TCP port, as far as /proc lets us see."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:] if Path(table).exists() else []:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                inodes.add(f"socket:[{fields[9]}]")
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if any(str(link.readlink()) in inodes for link in (process / "fd").iterdir()):
                return f"{(process / 'comm').read_text().strip()} (process {process.name})"
        except OSError:
            continue
    return None
