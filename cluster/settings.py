"""Where things live and what they are called. Every value has an environment variable that overrides it."""

from __future__ import annotations

import hashlib
import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cluster.errors import ClusterError

PROJECT = "triton-llm-operator"
DEFAULT_NAME = "llmservice-test"
REPOSITORY = Path(__file__).resolve().parent.parent
SOCKET_PATH_LIMIT = 107  # bytes of sun_path in struct sockaddr_un, without the closing zero


@dataclass(frozen=True)
class Settings:
    """One cluster on this machine."""

    name: str
    cache: Path
    state: Path
    pod_network: ipaddress.IPv4Network
    service_network: ipaddress.IPv4Network
    api_port: int | None = None  # None: the preferred port or, when that is taken, any free one

    @property
    def environment(self) -> dict[str, str]:
        """The variables from which another process reads the same settings (`from_environment`)."""
        said = {
            "LLMSERVICE_CLUSTER_NAME": self.name,
            "LLMSERVICE_CACHE": self.cache,
            "LLMSERVICE_CLUSTER_STATE": self.state,
            "LLMSERVICE_CLUSTER_POD_CIDR": self.pod_network,
            "LLMSERVICE_CLUSTER_SERVICE_CIDR": self.service_network,
            "LLMSERVICE_CLUSTER_API_PORT": self.api_port or "",
        }
        return {variable: str(value) for variable, value in said.items()}

    @property
    def node(self) -> str:
        """The real node's name."""
        return f"{self.name}-node"

    @property
    def bridge(self) -> str:
        """The bridge's name; Linux allows 15 characters, so other clusters get a hash of their name."""
        if self.name == DEFAULT_NAME:
            return "llmservice0"
        return "llms" + hashlib.sha256(self.name.encode()).hexdigest()[:8]

    @property
    def cgroup(self) -> str:
        """The control group that holds every pod; its prefix keeps it apart from what a host names so."""
        return f"llmservice-cluster-{self.name}"

    @property
    def gateway(self) -> str:
        """The bridge's address, which is also the node's."""
        return str(self.pod_network.network_address + 1)

    @property
    def kubernetes_address(self) -> str:
        """ClusterIP of the Service `kubernetes`."""
        return str(self.service_network.network_address + 1)

    @property
    def dns_address(self) -> str:
        """ClusterIP of the Service `kube-dns`."""
        return str(self.service_network.network_address + 10)

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig; its context has the cluster's name."""
        return self.state / "kubeconfig"

    @property
    def bin(self) -> Path:
        """Symlinks to the components, kubectl and helm."""
        return self.state / "bin"

    @property
    def containerd_socket(self) -> Path:
        """The address of containerd's API."""
        return self.state / "containerd.sock"

    @property
    def weights(self) -> Path:
        """The node's cache of weights from hubs and buckets."""
        return self.state / "weights"


def from_environment(environment: Mapping[str, str] = os.environ) -> Settings:
    """Read the settings; raises ClusterError for a value that cannot work."""
    home = Path(environment.get("HOME", "/root"))
    cache_home = Path(environment.get("XDG_CACHE_HOME") or home / ".cache")
    state_home = Path(environment.get("XDG_STATE_HOME") or home / ".local" / "state")
    name = environment.get("LLMSERVICE_CLUSTER_NAME", DEFAULT_NAME)
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?", name):
        raise ClusterError(
            f"LLMSERVICE_CLUSTER_NAME: {name!r} is not a name of at most 40 lower-case letters, digits and dashes"
        )
    settings = Settings(
        name=name,
        cache=Path(environment.get("LLMSERVICE_CACHE") or cache_home / PROJECT).absolute(),
        state=Path(environment.get("LLMSERVICE_CLUSTER_STATE") or state_home / PROJECT / name).absolute(),
        pod_network=_network(environment, "LLMSERVICE_CLUSTER_POD_CIDR", "10.213.0.0/16"),
        service_network=_network(environment, "LLMSERVICE_CLUSTER_SERVICE_CIDR", "10.214.0.0/16"),
        api_port=_port(environment, "LLMSERVICE_CLUSTER_API_PORT"),
    )
    if len(os.fsencode(settings.containerd_socket)) > SOCKET_PATH_LIMIT - len(".ttrpc"):
        raise ClusterError(
            f"the state folder {settings.state} is too long for a Unix socket in it: "
            "set LLMSERVICE_CLUSTER_STATE to a shorter path"
        )
    if settings.pod_network.overlaps(settings.service_network):
        raise ClusterError(
            f"LLMSERVICE_CLUSTER_POD_CIDR {settings.pod_network} and LLMSERVICE_CLUSTER_SERVICE_CIDR "
            f"{settings.service_network} overlap: choose two separate networks"
        )
    return settings


def _network(environment: Mapping[str, str], variable: str, default: str) -> ipaddress.IPv4Network:
    text = environment.get(variable, default)
    try:
        network = ipaddress.IPv4Network(text)
    except ValueError as error:
        raise ClusterError(f"{variable}: {error}; write for example {default}") from error
    if network.prefixlen > 24:
        raise ClusterError(f"{variable}: {network} is too small; write a /24 or larger, for example {default}")
    return network


def _port(environment: Mapping[str, str], variable: str) -> int | None:
    text = environment.get(variable)
    if not text:
        return None
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise ClusterError(f"{variable}: {text!r} is not a port; write a number from 1 to 65535")
    return int(text)
