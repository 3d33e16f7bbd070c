"""Ports: the preferred one, or any free one where somebody else has it; kept for the life of the cluster."""

from __future__ import annotations

import json
import socket
from pathlib import Path

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


def ensure(settings: Settings, address: str) -> dict[str, int]:
    """The cluster's ports, chosen at its first start; `address` is where the API server listens."""
    path = settings.state / "ports.json"
    recorded = read(settings)
    if recorded:
        if settings.api_port not in (None, recorded["api"]):
            raise ClusterError(
                f"the cluster {settings.name} was made with API port {recorded['api']}, not {settings.api_port}: "
                "run `python3 -m cluster down` first, or leave LLMSERVICE_CLUSTER_API_PORT unset"
            )
        return recorded
    chosen: dict[str, int] = {}
    for name, preferred in PREFERRED.items():
        host = address if name == "api" else "127.0.0.1"
        if name == "api" and settings.api_port is not None:
            require_free(host, settings.api_port, "API server", "set LLMSERVICE_CLUSTER_API_PORT to another port")
            chosen[name] = settings.api_port
        else:
            chosen[name] = preferred if _free(host, preferred) else _any_free(host, set(chosen.values()))
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(chosen, indent=1))
    fresh.rename(path)
    return chosen


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


def _any_free(host: str, taken: set[int]) -> int:
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
