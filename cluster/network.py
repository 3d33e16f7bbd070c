"""The bridge between the pods and the few kernel settings and rules around it; all of it undone by `remove`."""

from __future__ import annotations

import ipaddress
import json
import re
from pathlib import Path

from cluster.errors import ClusterError
from cluster.packages import find
from cluster.settings import Settings
from cluster.shell import answer

# Kernel settings that we, the kubelet or kube-proxy change; `down` puts the old values back.
KERNEL_SETTINGS = (
    "net/ipv4/ip_forward",
    "net/ipv4/conf/all/route_localnet",
    "net/bridge/bridge-nf-call-iptables",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
    "net/netfilter/nf_conntrack_max",
    "net/netfilter/nf_conntrack_tcp_timeout_established",
    "net/netfilter/nf_conntrack_tcp_timeout_close_wait",
)
CHAIN_PREFIXES = ("KUBE-", "CNI-")
PROTOCOLS = ("iptables", "ip6tables")
TABLES = ("filter", "nat", "mangle")


def ensure_bridge(settings: Settings) -> None:
    """The bridge must exist before the kubelet starts, since its address is the node's."""
    links = json.loads(answer(["ip", "-json", "address", "show"]))
    ours = [link for link in links if link["ifname"] == settings.bridge]
    if not ours:
        _check_overlap(settings)
        answer(["ip", "link", "add", settings.bridge, "type", "bridge"])
    if not any(entry.get("local") == settings.gateway for link in ours for entry in link["addr_info"]):
        answer(["ip", "address", "add", f"{settings.gateway}/{settings.pod_network.prefixlen}", "dev", settings.bridge])
    answer(["ip", "link", "set", settings.bridge, "up"])


def prepare_node(settings: Settings) -> None:
    """Forwarding and masquerading for pods; remembers what was there before the first change."""
    record = settings.state / "network-before.json"
    if not record.exists():
        _check_no_other_proxy(settings)
        values = {name: value for name in KERNEL_SETTINGS if (value := _read(name)) is not None}
        chains = {protocol: {table: _chains(protocol, table) for table in TABLES} for protocol in PROTOCOLS}
        fresh = record.with_suffix(".new")
        fresh.write_text(json.dumps({"kernel": values, "chains": chains}))
        fresh.rename(record)
    _write("net/ipv4/ip_forward", "1")
    if _read("net/bridge/bridge-nf-call-iptables") is not None:
        _write("net/bridge/bridge-nf-call-iptables", "1")
    for rule in _rules(settings):
        if not _present(rule):
            answer([_iptables(), "-w", *rule[:2], "-I", *rule[2:]])


def bridged_traffic_is_filtered() -> bool:
    """Whether packets between two pods on the bridge pass iptables (br_netfilter).

    Without it the answer of a pod behind a Service would miss its translation back.
    """
    return _read("net/bridge/bridge-nf-call-iptables") is not None


def remove(settings: Settings) -> None:
    """Delete bridge, rules and chains that were not there before, and put the kernel settings back."""
    record = settings.state / "network-before.json"
    if record.exists():
        before = json.loads(record.read_text())
        for protocol in PROTOCOLS:
            if find(protocol):
                for table in TABLES:
                    _remove_chains(settings, protocol, table, set(before["chains"].get(protocol, {}).get(table, ())))
        for name, value in before["kernel"].items():
            if _read(name) != value:
                _write(name, value)
    if any(link["ifname"] == settings.bridge for link in json.loads(answer(["ip", "-json", "link", "show"]))):
        answer(["ip", "link", "delete", settings.bridge])


def _rules(settings: Settings) -> list[list[str]]:
    """Our own rules: `-t table chain match…`."""
    comment = ["-m", "comment", "--comment", _comment(settings)]
    network = str(settings.pod_network)
    return [
        ["-t", "nat", "POSTROUTING", "-s", network, "!", "-d", network, *comment, "-j", "MASQUERADE"],
        ["-t", "filter", "FORWARD", "-i", settings.bridge, *comment, "-j", "ACCEPT"],
        ["-t", "filter", "FORWARD", "-o", settings.bridge, *comment, "-j", "ACCEPT"],
    ]


def _present(rule: list[str]) -> bool:
    try:
        answer([_iptables(), "-w", *rule[:2], "-C", *rule[2:]])
    except ClusterError:
        return False
    return True


def _comment(settings: Settings) -> str:
    return f"embedded cluster {settings.name}"


def _remove_chains(settings: Settings, protocol: str, table: str, keep: set[str]) -> None:
    """One transaction: delete the rules that jump to our chains, then the chains."""
    program = find(protocol) or protocol
    chains = [name for name in _chains(protocol, table) if name.startswith(CHAIN_PREFIXES) and name not in keep]
    lines = [f"*{table}"]
    for rule in answer([program, "-w", "-t", table, "-S"]).splitlines():
        words = rule.split()
        if words[0] != "-A" or words[1] in chains:
            continue
        target = words[words.index("-j") + 1] if "-j" in words else ""
        if target in chains or f'"{_comment(settings)}"' in rule:
            lines.append("-D" + rule.removeprefix("-A"))
    lines += [f"-F {name}" for name in chains] + [f"-X {name}" for name in chains] + ["COMMIT", ""]
    if len(lines) > 3:
        answer([find(f"{protocol}-restore") or f"{protocol}-restore", "-w", "--noflush"], text="\n".join(lines))


def _chains(protocol: str, table: str) -> list[str]:
    program = find(protocol)
    if program is None:
        return []
    listing = answer([program, "-w", "-t", table, "-S"])
    return [line.split()[1] for line in listing.splitlines() if line.startswith("-N ")]


def _iptables() -> str:
    return find("iptables") or "iptables"


def _check_overlap(settings: Settings) -> None:
    for route in json.loads(answer(["ip", "-json", "-4", "route", "show"])):
        if route["dst"] == "default":
            continue
        network = ipaddress.IPv4Network(route["dst"])
        for name, ours in (("POD", settings.pod_network), ("SERVICE", settings.service_network)):
            if network.overlaps(ours):
                raise ClusterError(
                    f"the cluster's network {ours} overlaps {network} of {route.get('dev', 'another route')}: "
                    f"set LLMSERVICE_CLUSTER_{name}_CIDR to a free one"
                )


def _check_no_other_proxy(settings: Settings) -> None:
    """Two kube-proxies in one network namespace would write over each other's chains."""
    if "KUBE-SERVICES" in _chains("iptables", "nat"):
        found = re.search(r'--comment "embedded cluster ([-a-z0-9]+)"', answer([_iptables(), "-w", "-S", "FORWARD"]))
        holder = f"the embedded cluster {found[1]}" if found else "another Kubernetes, or one that was not cleaned up,"
        remedy = (
            f"run `LLMSERVICE_CLUSTER_NAME={found[1]} python3 -m cluster down`"
            if found
            else f"stop it, or remove what it left by `{settings.bin}/kube-proxy --cleanup`"
        )
        raise ClusterError(f"{holder} has kube-proxy's chains in this host's iptables: {remedy}")


def _read(name: str) -> str | None:
    try:
        return Path("/proc/sys", name).read_text().strip()
    except OSError:
        return None


def _write(name: str, value: str) -> None:
    Path("/proc/sys", name).write_text(value)
